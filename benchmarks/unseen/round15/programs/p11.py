"""Online adaptation of a wave-height nowcaster to drifting buoys.

Every buoy delivers a log of hourly records.  A log is cut into windows of
`WINDOW` hours and the network is updated window by window, the way it would be
at sea, before the next buoy is read.
"""
import dataclasses
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


@dataclasses.dataclass
class Config:
    window: int = 24
    channels: int = 5
    width: int = 32
    buoys: int = 40
    min_days: int = 2
    max_days: int = 13
    lr: float = 2e-3
    clip: float = 1.0
    report_every: int = 10
    seed: int = 11


class BuoyLog:
    """Hourly records of one buoy: wind, pressure, period, sin/cos of direction."""

    def __init__(self, ident, days, rng, cfg):
        hours = days * 24
        t = np.arange(hours) / 24.0
        swell = 1.5 + 0.6 * np.sin(2 * math.pi * t / 6.5 + rng.uniform(0, 6))
        wind = np.abs(rng.normal(7, 2, hours)) + swell
        pressure = rng.normal(0, 1, hours).cumsum() * 0.05
        period = 6 + swell + rng.normal(0, 0.2, hours)
        direction = rng.uniform(0, 2 * math.pi) + 0.1 * rng.normal(0, 1, hours).cumsum()
        self.ident = ident
        self.records = np.stack(
            [wind / 10, pressure, period / 10, np.sin(direction), np.cos(direction)], 1
        ).astype(np.float32)
        self.height = (swell + 0.05 * wind + rng.normal(0, 0.05, hours)).astype(np.float32)
        self.window = cfg.window

    def __len__(self):
        return len(self.height) // self.window

    def __iter__(self):
        for k in range(len(self)):
            s = slice(k * self.window, (k + 1) * self.window)
            yield torch.from_numpy(self.records[s]), torch.from_numpy(self.height[s])


class Nowcaster(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.inp = nn.Linear(cfg.channels, cfg.width)
        self.mix = nn.Conv1d(cfg.width, cfg.width, 5, padding=2)
        self.norm = nn.LayerNorm(cfg.width)
        self.out = nn.Linear(cfg.width, 1)

    def forward(self, x):
        h = torch.tanh(self.inp(x))
        h = h + torch.relu(self.mix(h.t().unsqueeze(0))[0].t())
        return self.out(self.norm(h)).squeeze(-1)


class Adapter:
    def __init__(self, model, cfg, device):
        self.model, self.cfg, self.device = model, cfg, device
        self.opt = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9)
        self.loss_fn = nn.SmoothL1Loss()

    def update(self, x, y):
        self.opt.zero_grad()
        loss = self.loss_fn(self.model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip)
        self.opt.step()
        return loss.detach()

    def follow(self, log):
        self.model.train()
        total = torch.zeros((), device=self.device)
        for x, y in log:
            total += self.update(x.to(self.device), y.to(self.device))
        xm.mark_step()
        return total / len(log)


def draw_fleet(cfg):
    rng = np.random.default_rng(cfg.seed)
    for ident in range(cfg.buoys):
        days = int(rng.integers(cfg.min_days, cfg.max_days + 1))
        yield BuoyLog(ident, days, rng, cfg)


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    adapter = Adapter(Nowcaster(cfg).to(device), cfg, device)
    seen = 0
    for log in draw_fleet(cfg):
        mean = adapter.follow(log)
        seen += len(log)
        if (log.ident + 1) % cfg.report_every == 0:
            print(f"buoy {log.ident + 1:3d}  windows {seen:4d}  smooth-l1 {mean.item():.4f}")
    print("windows seen", seen)


if __name__ == "__main__":
    main()
