"""Load forecasting: a causal TCN with a quantile head, averaged weights for serving."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BATCH, SERIES, LENGTH, HORIZON, CH = 4, 3, 24, 6, 12
QUANTILES = (0.1, 0.5, 0.9)


class CausalConv(nn.Module):
    def __init__(self, c_in, c_out, kernel, dilation):
        super().__init__()
        self.pad = (kernel - 1) * dilation // 2  # keep the length
        self.conv = nn.Conv1d(c_in, c_out, kernel, dilation=dilation)

    def forward(self, x):
        return self.conv(F.pad(x, (self.pad, self.pad)))


class TemporalBlock(nn.Module):
    def __init__(self, c_in, c_out, dilation):
        super().__init__()
        self.conv1 = CausalConv(c_in, c_out, 3, dilation)
        self.conv2 = CausalConv(c_out, c_out, 3, dilation)
        self.skip = nn.Conv1d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x):
        y = F.gelu(self.conv1(x), approximate="tanh")
        y = F.gelu(self.conv2(y), approximate="tanh")
        return y + self.skip(x)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.tcn = nn.Sequential(
            TemporalBlock(SERIES, CH, 1), TemporalBlock(CH, CH, 2))
        self.head = nn.Linear(CH, HORIZON * len(QUANTILES))

    def forward(self, x):
        level = x.mean(dim=2, keepdim=True)
        spread = x.std(dim=2, keepdim=True) + 1e-5
        h = self.tcn((x - level) / spread)[:, :, -1]
        y = self.head(h).view(-1, HORIZON, len(QUANTILES))
        return y * spread[:, :1] + level[:, :1]


def pinball(pred, target, q):
    diff = target.unsqueeze(-1) - pred
    return torch.maximum(q * diff, (q - 1.0) * diff).mean()


def crossing(pred):
    return F.relu(pred[..., :-1] - pred[..., 1:]).mean()


@torch.no_grad()
def update_ema(ema, net, decay=0.995):
    for avg, p in zip(ema.parameters(), net.parameters()):
        avg.lerp_(p, 1.0 - decay)


def train_step(net, ema, opt, x, y, q):
    pred = net(x)
    loss = pinball(pred, y, q) + 0.1 * crossing(pred)
    loss.backward()
    update_ema(ema, net)
    opt.step()
    opt.zero_grad()
    return loss.detach()


def live(net, ema, opt, loss):
    out = list(net.parameters()) + list(ema.parameters())
    for p in net.parameters():
        out += [opt.state[p]["exp_avg"], opt.state[p]["exp_inf"]]
    return out + [loss]


def setup():
    torch.manual_seed(17)
    dev = torch_xla.device()
    net = Forecaster().to(dev)
    ema = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.Adamax(net.parameters(), lr=2e-3, weight_decay=1e-4)
    series = torch.randn(BATCH, SERIES, LENGTH + HORIZON).cumsum(dim=2)
    x, y = series[:, :, :LENGTH].to(dev), series[:, 0, LENGTH:].to(dev)
    q = torch.tensor(QUANTILES).to(dev)
    torch_xla.sync()
    return net, ema, opt, x, y, q


def main(path):
    net, ema, opt, x, y, q = setup()
    for it in range(4):
        loss = train_step(net, ema, opt, x, y, q)
        if it == 3 and path:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(net, ema, opt, loss)))
        torch_xla.sync()
        print(it, loss.item())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
