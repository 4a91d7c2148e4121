"""Probabilistic load forecast for a district heating network.

A small residual MLP gives the median and a scale; the interval is calibrated
online with split-conformal scores, and the coverage it reaches is reported.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FEATURES = 10


def load_stream(batch, gen):
    while True:
        hour = torch.rand(batch, 1, generator=gen) * 24
        temp = torch.randn(batch, 1, generator=gen) * 6 + 4
        other = torch.randn(batch, FEATURES - 4, generator=gen)
        x = torch.cat([torch.sin(hour * math.pi / 12), torch.cos(hour * math.pi / 12),
                       temp / 6, (temp < 0).float(), other], dim=1)
        mean = 3.0 - 0.2 * temp + torch.sin(hour * math.pi / 12) + 0.3 * other[:, :1]
        noise = torch.randn(batch, 1, generator=gen) * (0.2 + 0.05 * temp.abs())
        yield x, (mean + noise).squeeze(1)


class ResidualMLP(nn.Module):
    def __init__(self, width=16, depth=1):
        super().__init__()
        self.inp = nn.Linear(FEATURES, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(),
                          nn.Linear(width, width)) for _ in range(depth))
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        h = self.inp(x)
        for block in self.blocks:
            h = h + block(h)
        mu, raw = self.head(h).unbind(-1)
        return mu, F.softplus(raw) + 1e-3


class ConformalCalibrator:
    """Width multiplier from the normalised scores of data not yet trained on."""

    def __init__(self, level, device):
        self.level = level
        self.scores = []
        self.hits = torch.zeros((), device=device)
        self.seen = 0

    @property
    def width(self):
        if not self.scores:
            return 1.6449
        s = torch.cat(self.scores)
        rank = math.ceil((s.numel() + 1) * self.level) / s.numel()
        return torch.quantile(s, min(rank, 1.0))

    def observe(self, mu, sigma, y):
        score = (y - mu).abs() / sigma
        self.hits = self.hits + (score <= self.width).float().sum()
        self.seen += y.numel()
        self.scores.append(score)

    def coverage(self):
        return self.hits.item() / max(self.seen, 1)


def gaussian_nll(mu, sigma, y):
    return (torch.log(sigma) + 0.5 * ((y - mu) / sigma).pow(2)).mean()


def main():
    torch.manual_seed(41)
    device = torch_xla.device()
    gen = torch.Generator().manual_seed(43)

    model = ResidualMLP().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=16)
    calib = ConformalCalibrator(level=0.9, device=device)

    stream = load_stream(32, gen)
    for step in range(16):
        x, y = next(stream)
        x, y = x.to(device), y.to(device)

        mu, sigma = model(x)
        with torch.no_grad():
            calib.observe(mu.detach(), sigma.detach(), y)

        loss = gaussian_nll(mu, sigma, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()

        if (step + 1) % 8 == 0:
            print(f"step {step + 1} nll {loss.item():.3f} coverage {calib.coverage():.3f}")


if __name__ == "__main__":
    main()
