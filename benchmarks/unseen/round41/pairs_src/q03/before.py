"""Quantile forecasts of district-heating load with a causal temporal conv net.

usage: before.py OUT      writes the pending graph of the third training step
"""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

QUANTILES = (0.1, 0.5, 0.9)
FEATURES, WIDTH, HISTORY, HORIZON = 5, 12, 24, 6


class CausalConv(nn.Module):
    def __init__(self, cin, cout, kernel, dilation):
        super().__init__()
        self.pad = (kernel - 1) * dilation
        self.conv = nn.Conv1d(cin, cout, kernel, dilation=dilation)

    def forward(self, x):
        return self.conv(F.pad(x, (self.pad, 0)))


class Block(nn.Module):
    def __init__(self, cin, cout, dilation):
        super().__init__()
        self.conv1 = CausalConv(cin, cout, 3, dilation)
        self.conv2 = CausalConv(cout, cout, 3, dilation)
        self.gate = nn.Conv1d(cout, cout, 1)
        self.skip = nn.Conv1d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        h = F.elu(self.conv1(x))
        h = self.conv2(h)
        h = h * torch.sigmoid(self.gate(h))
        return F.elu(h + self.skip(x))


class LoadForecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(
            Block(FEATURES, WIDTH, 1),
            Block(WIDTH, WIDTH, 2),
            Block(WIDTH, WIDTH, 4),
        )
        self.head = nn.Linear(WIDTH, HORIZON * len(QUANTILES))

    def forward(self, x):
        level = x[:, :1].mean(dim=-1, keepdim=True)
        spread = x[:, :1].std(dim=-1, keepdim=True) + 1e-4
        load = (x[:, :1] - level) / spread
        h = self.blocks(torch.cat([load, x[:, 1:]], dim=1))
        out = self.head(h[:, :, -1]).view(-1, HORIZON, len(QUANTILES))
        return out * spread + level


class PinballLoss(nn.Module):
    def __init__(self, quantiles):
        super().__init__()
        self.register_buffer("q", torch.tensor(quantiles))

    def forward(self, pred, target, mask):
        diff = target.unsqueeze(-1) - pred
        loss = torch.maximum(self.q * diff, (self.q - 1.0) * diff)
        loss = loss.mean(dim=-1) * mask
        return loss.sum() / mask.sum().clamp(min=1.0)


def crossing_penalty(pred):
    return F.relu(pred[..., :-1] - pred[..., 1:]).mean()


def main(out):
    torch.manual_seed(5)
    device = xm.xla_device()
    net = LoadForecaster().to(device)
    criterion = PinballLoss(QUANTILES).to(device)
    params = list(net.parameters())
    opt = torch.optim.SGD(params, lr=0.02, momentum=0.9, nesterov=True, weight_decay=1e-4)
    for step in range(3):
        x = torch.randn(8, FEATURES, HISTORY).to(device)
        y = torch.randn(8, HORIZON).to(device)
        mask = (torch.rand(8, HORIZON) > 0.2).float().to(device)
        torch_xla.sync()

        pred = net(x)
        loss = criterion(pred, y, mask) + 0.1 * crossing_penalty(pred)
        loss.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)

        if step == 2:
            live = [loss.detach()] + [p.detach() for p in params]
            live += [opt.state[p]["momentum_buffer"] for p in params]
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, loss.item())


if __name__ == "__main__":
    main(sys.argv[1])
