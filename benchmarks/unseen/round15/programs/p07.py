"""Electric load forecasting with a learned exponential-smoothing front end.

The series is read in order, window after window; the smoothed level of one
window is the starting level of the next.
"""
import math
from typing import NamedTuple

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

SITES = 12
WINDOW = 8
AHEAD = 4


class Window(NamedTuple):
    past: torch.Tensor
    future: torch.Tensor
    calendar: torch.Tensor


def simulate_load(hours, sites, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)[:, None]
    base = rng.uniform(0.8, 2.0, sites)
    daily = rng.uniform(0.1, 0.5, sites) * np.sin(2 * math.pi * t / 24 + rng.uniform(0, 6, sites))
    weekly = 0.1 * np.sin(2 * math.pi * t / 168)
    drift = np.cumsum(rng.normal(0, 0.01, (hours, sites)), axis=0)
    return (base + daily + weekly + drift + rng.normal(0, 0.03, (hours, sites))).astype("float32")


class LoadFeed:
    def __init__(self, load):
        self.load = torch.from_numpy(load)

    def __len__(self):
        return (len(self.load) - AHEAD) // WINDOW

    def __iter__(self):
        for k in range(len(self)):
            a = k * WINDOW
            b = a + WINDOW
            hour = torch.arange(a, b + AHEAD) * (2 * math.pi / 24)
            yield Window(self.load[a:b].T.contiguous(), self.load[b:b + AHEAD].T.contiguous(),
                         torch.stack([hour.sin(), hour.cos()]).flatten())


class Smoother(nn.Module):
    """Per-site exponential smoothing with learned rates."""

    def __init__(self, sites):
        super().__init__()
        self.rate = nn.Parameter(torch.full((sites,), -1.0))

    def forward(self, past, level):
        alpha = self.rate.sigmoid()
        return alpha * past.mean(1) + (1 - alpha) * level


class Forecaster(nn.Module):
    def __init__(self, sites, width=24):
        super().__init__()
        self.smoother = Smoother(sites)
        calendar = 2 * (WINDOW + AHEAD)
        self.net = nn.Sequential(nn.Linear(WINDOW + calendar, width), nn.Tanh(),
                                 nn.Linear(width, width), nn.Tanh(),
                                 nn.Linear(width, AHEAD))

    def forward(self, past, calendar, level):
        level = self.smoother(past, level)
        relative = past - level.unsqueeze(1)
        feats = torch.cat([relative, calendar.expand(past.size(0), -1)], 1)
        return level.unsqueeze(1) + self.net(feats), level


def pinball(pred, target, q=0.55):
    err = target - pred
    return torch.maximum(q * err, (q - 1) * err).mean()


class OnlineFit:
    def __init__(self, load, device):
        self.device = device
        self.model = Forecaster(SITES).to(device)
        self.opt = torch.optim.Adagrad(self.model.parameters(), lr=0.03)
        self.level = torch.from_numpy(load[:WINDOW].mean(0)).to(device)
        self.history = []

    def update(self, window):
        past, future, calendar = (t.to(self.device) for t in window)
        pred, self.level = self.model(past, calendar, self.level)
        loss = pinball(pred, future)
        self.opt.zero_grad()
        loss.backward(retain_graph=True)
        nn.utils.clip_grad_value_(self.model.parameters(), 0.5)
        self.opt.step()
        torch_xla.sync()
        self.history.append(loss.detach())

    def report(self, last):
        recent = torch.stack([h.cpu() for h in self.history[-last:]])
        alpha = self.model.smoother.rate.detach().cpu().sigmoid()
        return f"pinball {recent.mean():.4f}  alpha {alpha.mean():.3f}"


def main():
    torch.manual_seed(31)
    load = simulate_load(hours=WINDOW * 32 + AHEAD, sites=SITES, seed=31)
    fit = OnlineFit(load, torch_xla.device())
    torch_xla.sync()
    for k, window in enumerate(LoadFeed(load), start=1):
        fit.update(window)
        if k % 8 == 0:
            xm.master_print(f"window {k:3d}  {fit.report(8)}")


if __name__ == "__main__":
    main()
