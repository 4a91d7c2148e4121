"""Quantile forecasts of river discharge with a gated dilated convolution net
(WaveNet-like), one step ahead at every position of the window."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

QUANTILES = (0.05, 0.5, 0.95)


class CausalConv(nn.Module):
    """Dilated convolution that keeps the length."""

    def __init__(self, n_in, n_out, kernel, dilation):
        super().__init__()
        self.kernel = kernel
        self.dilation = dilation
        self.weight = nn.Parameter(torch.empty(n_out, n_in, kernel))
        self.bias = nn.Parameter(torch.zeros(n_out))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x):
        span = (self.kernel - 1) * self.dilation
        x = F.pad(x, (span, 0))
        return F.conv1d(x, self.weight, self.bias, dilation=self.dilation)


class Block(nn.Module):
    def __init__(self, width, kernel, dilation):
        super().__init__()
        self.gates = CausalConv(width, 2 * width, kernel, dilation)
        self.skip = nn.Parameter(torch.empty(width, width))
        self.res = nn.Parameter(torch.empty(width, width))
        nn.init.xavier_uniform_(self.skip)
        nn.init.xavier_uniform_(self.res)

    def forward(self, x):
        f, g = self.gates(x).chunk(2, 1)
        y = torch.tanh(f) * torch.sigmoid(g)
        skip = torch.einsum("oc,bct->bot", self.skip, y)
        return (x + torch.einsum("oc,bct->bot", self.res, y)) * 0.7071, skip


class Forecaster(nn.Module):
    def __init__(self, features=4, width=8, depth=3):
        super().__init__()
        self.inp = CausalConv(features, width, 1, 1)
        self.blocks = nn.ModuleList(
            [Block(width, 3, 2 ** i) for i in range(depth)])
        self.head = nn.Linear(width, len(QUANTILES))

    def forward(self, x):
        h = self.inp(x)
        total = 0
        for block in self.blocks:
            h, skip = block(h)
            total = total + skip
        return self.head(F.elu(total).transpose(1, 2))


def pinball(pred, target):
    loss = 0
    for i, q in enumerate(QUANTILES):
        err = target - pred[..., i]
        loss = loss + torch.maximum(q * err, (q - 1) * err).mean()
    return loss / len(QUANTILES)


def crossing(pred):
    return F.relu(pred[..., :-1] - pred[..., 1:]).mean()


def train_step(model, opt, series):
    opt.zero_grad(set_to_none=True)
    pred = model(series[:, :, :-1])
    loss = pinball(pred, series[:, 0, 1:]) + 0.5 * crossing(pred)
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.5, foreach=False)
    opt.step()
    return loss.detach()


def pending(model, opt, loss):
    params = [p for p in model.parameters() if p.grad is not None]
    out = params + [p.grad for p in params]
    for key in ("square_avg", "momentum_buffer"):
        out += [opt.state[p][key] for p in params]
    return out + [loss]


def main():
    torch.manual_seed(4)
    dev = torch_xla.device()
    model = Forecaster().to(dev)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, alpha=0.95,
                              momentum=0.8, foreach=False)
    for step in range(4):
        g = torch.Generator().manual_seed(step)
        series = torch.randn(4, 4, 33, generator=g).cumsum(-1).mul(0.3).to(dev)
        torch_xla.sync()
        loss = train_step(model, opt, series)
        if step == 2:
            text = torch_xla._XLAC._get_xla_tensors_hlo(
                pending(model, opt, loss))
            with open(sys.argv[1], "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, round(loss.item(), 6))


if __name__ == "__main__":
    main()
