"""Density model of sensor rows: affine coupling flow with learned permutations (LU linear)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

COLS, HID, ROWS = 6, 20, 16


class ActNorm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.log_s = nn.Parameter(torch.zeros(n))
        self.shift = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        return (x + self.shift) * self.log_s.exp(), self.log_s.sum().expand(x.shape[0])


class LULinear(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.low = nn.Parameter(torch.randn(n, n) * 0.01)
        self.upp = nn.Parameter(torch.randn(n, n) * 0.01)
        self.diag = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        eye = torch.eye(x.shape[1], device=x.device)
        low = torch.tril(self.low, -1) + eye
        upp = torch.triu(self.upp, 1) + eye * self.diag.exp()
        return x @ (low @ upp).t(), self.diag.sum().expand(x.shape[0])


class Coupling(nn.Module):
    def __init__(self, n, flip):
        super().__init__()
        self.half, self.flip = n // 2, flip
        self.net = nn.Sequential(nn.Linear(self.half, HID), nn.ReLU(), nn.Linear(HID, HID), nn.ReLU(),
                                 nn.Linear(HID, 2 * (n - self.half)))

    def forward(self, x):
        a, b = x[:, : self.half], x[:, self.half :]
        if self.flip:
            a, b = b, a
        raw, t = self.net(a).chunk(2, dim=1)
        raw = raw + 2.0
        s = torch.sigmoid(raw)
        b = b * s + t
        logdet = torch.log(s).sum(1)
        out = [b, a] if self.flip else [a, b]
        return torch.cat(out, 1), logdet


class Flow(nn.Module):
    def __init__(self, blocks=3):
        super().__init__()
        self.steps = nn.ModuleList()
        for k in range(blocks):
            self.steps.extend([ActNorm(COLS), LULinear(COLS), Coupling(COLS, k % 2 == 1)])

    def log_prob(self, x):
        total = 0
        for step in self.steps:
            x, ld = step(x)
            total = total + ld
        base = -0.5 * (x ** 2 + math.log(2 * math.pi)).sum(1)
        return base + total


def main(steps=4):
    torch.manual_seed(6)
    device = torch_xla.device()
    flow = Flow().to(device)
    opt = torch.optim.Adamax(flow.parameters(), lr=2e-3)
    torch_xla.sync()
    for i in range(steps):
        rows = torch.randn(ROWS, COLS).cumsum(1).to(device)
        nll = -flow.log_prob(rows).mean()
        opt.zero_grad()
        nll.backward()
        nn.utils.clip_grad_value_(flow.parameters(), 5.0)
        opt.step()
        torch_xla.sync()
        print(i, "nll/dim", nll.item() / COLS)


if __name__ == "__main__":
    main()
