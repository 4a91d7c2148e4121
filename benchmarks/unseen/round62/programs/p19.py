"""Detrending of stellar light curves with a robust reconstruction loss.

A small convolutional encoder maps a window of normalised flux to the coefficients of a
trend basis (polynomial + slow harmonics).  Transits, flares and cosmic-ray hits must not
drag the trend along, so residuals go through Barron's general robust loss; its shape
parameter moves from quadratic towards Geman-McClure while training (graduated
non-convexity).
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch_xla


@dataclass
class Config:
    window: int = 96
    batch: int = 16
    steps: int = 32
    lr: float = 4e-3
    scale: float = 0.15
    alpha_start: float = 1.9
    alpha_end: float = -2.0
    anneal_frac: float = 0.9
    ridge: float = 1e-3
    seed: int = 4


def trend_basis(n, poly=3, harmonics=3):
    t = torch.linspace(-1, 1, n)
    cols = [t ** k for k in range(poly + 1)]
    for k in range(1, harmonics + 1):
        cols += [torch.sin(math.pi * k * t / 2), torch.cos(math.pi * k * t / 2)]
    q, _ = torch.linalg.qr(torch.stack(cols, 1))
    return q * math.sqrt(n)


class LightCurves:
    """Endless synthetic windows: trend + white noise + box transits + flares + hits."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.gen = torch.Generator().manual_seed(cfg.seed)
        self.basis = trend_basis(cfg.window)

    def _rand(self, *shape):
        return torch.rand(*shape, generator=self.gen)

    def __iter__(self):
        return self

    def __next__(self):
        b, n = self.cfg.batch, self.cfg.window
        coef = torch.randn(b, self.basis.shape[1], generator=self.gen) * 0.4
        trend = coef @ self.basis.t()
        pos = torch.arange(n)[None]

        start = (self._rand(b, 1) * (n - 14)).long()
        width = 4 + (self._rand(b, 1) * 10).long()
        transit = ((pos >= start) & (pos < start + width)).float() * (0.8 + self._rand(b, 1))

        peak = (self._rand(b, 1) * n).long()
        dt = (pos - peak).float()
        flare = torch.where(dt >= 0, torch.exp(-dt.clamp(min=0) / 3.0), torch.zeros(())) * 2.0

        hits = (self._rand(b, n) < 0.02).float() * 3.0
        noise = 0.08 * torch.randn(b, n, generator=self.gen)
        return trend - transit + flare + hits + noise, trend


class TrendNet(nn.Module):
    def __init__(self, basis, width=12):
        super().__init__()
        self.register_buffer("basis", basis)
        self.encoder = nn.Sequential(
            nn.Conv1d(1, width, 7, stride=3, padding=3), nn.SiLU(),
            nn.Conv1d(width, 2 * width, 5, stride=4, padding=2), nn.SiLU(),
        )
        self.coef = nn.Linear(2 * width * (basis.shape[0] // 12), basis.shape[1])
        nn.init.normal_(self.coef.weight, std=0.01)
        nn.init.zeros_(self.coef.bias)

    def forward(self, flux):
        c = self.coef(self.encoder(flux[:, None]).flatten(1))
        return c @ self.basis.t(), c


def general_robust(residual, alpha, scale):
    """Barron (2019), eq. 8, away from the removable singularities at 0 and 2."""
    b = abs(alpha - 2.0)
    sq = (residual / scale) ** 2
    return (b / alpha) * (torch.pow(sq / b + 1.0, 0.5 * alpha) - 1.0)


def cosine_ramp(start, end, t):
    t = min(max(t, 0.0), 1.0)
    return end + 0.5 * (start - end) * (1.0 + math.cos(math.pi * t))


class ShapeSchedule:
    def __init__(self, cfg):
        self.cfg = cfg
        self.span = max(1, int(cfg.anneal_frac * cfg.steps))

    def __call__(self, step):
        a = cosine_ramp(self.cfg.alpha_start, self.cfg.alpha_end, step / self.span)
        return math.copysign(max(abs(a), 1e-2), a)


def train(cfg):
    torch.manual_seed(cfg.seed)
    dev = torch_xla.device()
    curves = LightCurves(cfg)
    net = TrendNet(curves.basis).to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, cfg.steps, eta_min=cfg.lr * 0.05)
    shape = ShapeSchedule(cfg)

    smoothed = None
    for step in range(cfg.steps):
        flux, trend = (t.to(dev) for t in next(curves))
        alpha = shape(step)

        fit, coef = net(flux)
        loss = general_robust(flux - fit, alpha, cfg.scale).mean() + cfg.ridge * coef.pow(2).sum(1).mean()

        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        rms = (fit.detach() - trend).pow(2).mean().sqrt()
        torch_xla.sync()

        if step % 8 == 7:
            r = rms.item()
            smoothed = r if smoothed is None else 0.7 * smoothed + 0.3 * r
            print(f"[{step + 1:02d}/{cfg.steps}] alpha={alpha:+.3f} loss={loss.item():.4f} trend rms={smoothed:.4f}")


if __name__ == "__main__":
    train(Config())
