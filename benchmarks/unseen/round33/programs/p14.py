"""Probabilistic load forecasting: a small TCN with quantile heads.

Windows are cut on the host; the augmentation is applied on the device because
the windows are uploaded once and re-used for both views of the consistency loss.
"""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    context: int = 48
    horizon: int = 12
    channels: int = 16
    batch: int = 16
    steps: int = 36
    lr: float = 2e-3
    consistency: float = 0.3
    seed: int = 3


QUANTILES = (0.1, 0.5, 0.9)


def make_series(n, rng):
    t = np.arange(n)
    daily = np.sin(2 * np.pi * t / 24)
    weekly = 0.5 * np.sin(2 * np.pi * t / 168 + 0.3)
    walk = np.cumsum(rng.normal(0, 0.02, n))
    return (daily + weekly + walk + rng.normal(0, 0.1, n)).astype(np.float32)


def windows(series, cfg, rng):
    span = cfg.context + cfg.horizon
    starts = rng.integers(0, len(series) - span, cfg.batch)
    w = np.stack([series[s:s + span] for s in starts])
    return torch.from_numpy(w[:, :cfg.context]), torch.from_numpy(w[:, cfg.context:])


class Augment:
    """Batch level distortions, each drawn with its own probability."""

    def __init__(self, rng, p=0.5):
        self.rng, self.p = rng, p

    def draw(self, neutral, low, high):
        return float(self.rng.uniform(low, high)) if self.rng.random() < self.p else neutral

    def __call__(self, x):
        gain = self.draw(1.0, 0.8, 1.25)
        level = self.draw(0.0, -0.3, 0.3)
        slope = self.draw(0.0, -0.5, 0.5)
        sigma = self.draw(0.0, 0.02, 0.1)
        ramp = torch.linspace(-0.5, 0.5, x.size(-1), device=x.device)
        return x * gain + level + ramp * slope + torch.randn_like(x) * sigma


class CausalBlock(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(ch, ch, 3, dilation=dilation)

    def forward(self, x):
        return x + torch.tanh(self.conv(F.pad(x, (self.pad, 0))))


class TCN(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.horizon = cfg.horizon
        self.inp = nn.Conv1d(1, cfg.channels, 1)
        self.blocks = nn.ModuleList(CausalBlock(cfg.channels, d) for d in (1, 4))
        self.head = nn.Linear(cfg.channels, cfg.horizon * len(QUANTILES))

    def forward(self, x):
        h = self.inp(x.unsqueeze(1))
        for block in self.blocks:
            h = block(h)
        return self.head(h[..., -1]).view(-1, self.horizon, len(QUANTILES))


def pinball(pred, target, q):
    err = target.unsqueeze(-1) - pred
    return torch.maximum(q * err, (q - 1) * err).mean()


def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    device = xm.xla_device()

    series = make_series(2000, rng)
    series = (series - series.mean()) / series.std()
    model = TCN(cfg).to(device)
    q = torch.tensor(QUANTILES, device=device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    augment = Augment(np.random.default_rng(cfg.seed + 1))
    torch_xla.sync()

    running = 0.0
    for step in range(1, cfg.steps + 1):
        x, y = windows(series, cfg, rng)
        x, y = x.to(device), y.to(device)
        opt.zero_grad(set_to_none=True)
        pred = model(x)
        pred_aug = model(augment(x))
        loss = pinball(pred, y, q)
        loss = loss + cfg.consistency * F.smooth_l1_loss(pred_aug, pred.detach())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        xm.optimizer_step(opt, barrier=True)
        if step % 6 == 0:
            running = 0.5 * running + 0.5 * loss.item()
            xm.master_print(f"step {step:3d} loss {running:.4f}")


if __name__ == "__main__":
    main()
