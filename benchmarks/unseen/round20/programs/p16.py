"""Battery ageing: fit a neural capacity-fade rate by integrating it over rest periods."""
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
import torch_xla


@dataclass
class Config:
    cells: int = 8
    hidden: int = 16
    steps: int = 36
    max_dt: float = 0.5
    lr: float = 0.05


class FadeRate(nn.Module):
    """d(capacity)/dt as a function of capacity, temperature and state of charge."""

    def __init__(self, hidden):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, capacity, stress):
        x = torch.cat([capacity, stress], dim=1)
        return -0.1 * torch.sigmoid(self.net(x))


class Integrator:
    def __init__(self, rate, max_dt):
        self.rate = rate
        self.max_dt = max_dt

    def advance(self, capacity, stress, days):
        n = max(1, math.ceil(days / self.max_dt))
        dt = days / n
        for _ in range(n):
            half = capacity + 0.5 * dt * self.rate(capacity, stress)
            capacity = capacity + dt * self.rate(half, stress)
        return capacity


def measured(rng, cfg):
    days = float(rng.gamma(4.0, 1.0))
    temp = rng.uniform(-1, 1, size=(cfg.cells, 1))
    soc = rng.uniform(0, 1, size=(cfg.cells, 1))
    start = rng.uniform(0.8, 1.0, size=(cfg.cells, 1))
    speed = 0.02 + 0.015 * temp + 0.01 * soc
    end = start * np.exp(-speed * days) + rng.normal(0, 0.002, size=start.shape)
    tensors = [torch.tensor(a, dtype=torch.float32)
               for a in (start, np.hstack([temp, soc]), end)]
    return days, tensors


def fit(cfg):
    torch.manual_seed(4)
    rng = np.random.default_rng(8)
    device = torch_xla.device()
    rate = FadeRate(cfg.hidden).to(device)
    solver = Integrator(rate, cfg.max_dt)
    opt = torch.optim.SGD(rate.parameters(), lr=cfg.lr)
    for step in range(cfg.steps):
        days, batch = measured(rng, cfg)
        start, stress, end = (t.to(device) for t in batch)
        opt.zero_grad(set_to_none=True)
        pred = solver.advance(start, stress, days)
        loss = ((pred - end) ** 2).mean()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 9 == 8:
            print(f"{step + 1} rmse {math.sqrt(loss.item()):.4f}")


if __name__ == "__main__":
    fit(Config())
