"""Drive-train monitor. Sensor branches are described by configuration and built into one dictionary."""
import itertools
import math

import numpy as np
import torch
from torch import nn
import torch_xla.core.xla_model as xm

N, WIN, NCLS = 16, 48, 5
HYPER = {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-3}


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(-1)


def thermal_branch():
    return nn.Sequential(nn.Flatten(1), nn.Linear(32, 28), nn.SiLU(), nn.Linear(28, 14), nn.SiLU())


def acceleration_branch(width=12):
    layers = [nn.Conv1d(2, width, 7, stride=2, padding=3), nn.ReLU(),
              nn.Conv1d(width, width, 5, stride=2, padding=2), nn.ReLU(), Mean(),
              nn.Linear(width, 20), nn.Tanh()]
    return nn.Sequential(*layers)


class Monitor(nn.Module):
    order = ("acc", "therm")

    def __init__(self):
        super().__init__()
        self.classify = nn.Linear(34, NCLS)
        self.branches = nn.ModuleDict({"therm": thermal_branch(), "acc": acceleration_branch()})

    def forward(self, **signals):
        found = {name: self.branches[name](signals[name]) for name in ("therm", "acc")}
        return self.classify(torch.cat([found[n] for n in self.order], dim=1))


class Stream:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __iter__(self):
        t = np.arange(WIN) / WIN
        while True:
            cls = self.rng.integers(0, NCLS, N)
            phase = 2 * math.pi * (3 + 2 * cls)[:, None] * t
            acc = np.stack([np.sin(phase), np.cos(phase)], 1) + self.rng.normal(0, 0.5, (N, 2, WIN))
            therm = self.rng.normal(0, 1, (N, 4, 8)) + cls[:, None, None] * 0.2
            yield {"therm": torch.tensor(therm, dtype=torch.float32),
                   "acc": torch.tensor(acc, dtype=torch.float32)}, torch.tensor(cls)


def step(net, opt, crit, signals, cls):
    opt.zero_grad()
    out = crit(net(**signals), cls)
    out.backward()
    xm.optimizer_step(opt, barrier=True)
    return out


def main():
    torch.manual_seed(40)
    dev = xm.xla_device()
    net = Monitor().to(dev)
    groups = [{"params": net.branches.parameters()}, {"params": net.classify.parameters()}]
    opt = torch.optim.SGD(groups, **HYPER)
    crit = nn.CrossEntropyLoss()
    for n, (signals, cls) in enumerate(itertools.islice(Stream(2), 30), 1):
        cls = cls.to(dev)
        signals = {k: v.to(dev) for k, v in signals.items()}
        out = step(net, opt, crit, signals, cls)
        if n % 10 == 0:
            print(n, "loss", round(out.item(), 4))


if __name__ == "__main__":
    main()
