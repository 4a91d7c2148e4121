"""Multivariate forecasting with a TCN and our LARS."""
import math

import torch
import torch.nn as nn
from torch.optim.optimizer import Optimizer
import torch_xla
import torch_xla.core.xla_model as xm


class LARS(Optimizer):
    def __init__(self, params, lr, momentum=0.9, weight_decay=1e-4, trust=0.02):
        super().__init__(params, dict(lr=lr, momentum=momentum, weight_decay=weight_decay, trust=trust))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                g = p.grad
                if p.dim() > 1:
                    g = g.add(p, alpha=group["weight_decay"])
                    wn, gn = p.norm(), g.norm()
                    ratio = torch.where((wn > 0) & (gn > 0), group["trust"] * wn / (gn + 1e-9),
                                        torch.ones_like(wn))
                    g = g * ratio
                state = self.state[p]
                if "mu" not in state:
                    buf = state["mu"] = torch.clone(g).detach()
                else:
                    buf = state["mu"]
                    buf.mul_(group["momentum"]).add_(g)
                p.add_(buf, alpha=-group["lr"])


class TemporalBlock(nn.Module):
    def __init__(self, c, dilation):
        super().__init__()
        self.pad = nn.ConstantPad1d((2 * dilation, 0), 0.0)
        self.conv = nn.Conv1d(c, 2 * c, 3, dilation=dilation)
        self.mix = nn.Conv1d(c, c, 1)
        self.norm = nn.GroupNorm(1, c)

    def forward(self, x):
        a, b = self.conv(self.pad(x)).chunk(2, dim=1)
        return self.norm(x + self.mix(torch.tanh(a) * torch.sigmoid(b)))


class TCN(nn.Module):
    def __init__(self, channels, width=16, horizon=6, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.quantiles, self.horizon, self.channels = quantiles, horizon, channels
        self.inp = nn.Conv1d(channels, width, 1)
        self.blocks = nn.Sequential(*[TemporalBlock(width, 2 ** i) for i in range(3)])
        self.out = nn.Linear(width, channels * horizon * len(quantiles))

    def forward(self, x):
        h = self.blocks(self.inp(x))
        return self.out(h[:, :, -1]).view(-1, len(self.quantiles), self.channels, self.horizon)


def pinball(pred, target, quantiles):
    total = 0
    for i, q in enumerate(quantiles):
        e = target - pred[:, i]
        total = total + torch.maximum(q * e, (q - 1) * e).mean()
    return total


def windows(batch, length, horizon, channels, step):
    t = torch.arange(length + horizon).float()
    phase = torch.arange(batch).float()[:, None, None] * 0.37 + step * 0.11
    freq = torch.arange(1, channels + 1).float()[None, :, None]
    s = torch.sin(2 * math.pi * freq * t / 24 + phase) + 0.05 * torch.randn(batch, channels, length + horizon)
    return s[..., :length], s[..., length:]


def main():
    torch.manual_seed(8)
    device = torch_xla.device()
    model = TCN(channels=4).to(device)
    opt = LARS(model.parameters(), lr=0.2)
    for step in range(14):
        x, y = windows(12, 36, 6, 4, step)
        x, y = x.to(device), y.to(device)
        loss = pinball(model(x), y, model.quantiles)
        model.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if (step + 1) % 5 == 0:
            print(f"step {step + 1:3d}  pinball {loss.item():.4f}")


if __name__ == "__main__":
    main()
