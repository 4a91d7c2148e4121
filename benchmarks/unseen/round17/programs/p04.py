"""Fits a small network to line profiles of a reference lamp.

Stage one brings the weights near a solution with Adam on random sub-samples,
stage two polishes on the full wavelength grid with a quasi-Newton method. The
result is the dispersion curve used by the reduction pipeline.
"""
import json
import math
from dataclasses import dataclass, field, asdict
from typing import List

import torch
from torch import nn
import torch_xla


@dataclass
class FitConfig:
    grid: int = 192
    hidden: int = 14
    coarse_steps: int = 30
    coarse_batch: int = 64
    coarse_lr: float = 8e-3
    polish_steps: int = 12
    polish_inner: int = 1
    polish_lr: float = 0.4
    smooth: float = 1e-4
    report_every: int = 5
    lines: List[float] = field(default_factory=lambda: [0.18, 0.41, 0.44, 0.77])


class ProfileNet(nn.Module):
    """Sum of learned bumps on top of a smooth continuum."""

    def __init__(self, hidden: int):
        super().__init__()
        self.continuum = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        self.center = nn.Parameter(torch.linspace(0.05, 0.95, hidden))
        self.width = nn.Parameter(torch.full((hidden,), -2.5))
        self.height = nn.Parameter(torch.zeros(hidden))

    def forward(self, w):
        d = (w - self.center) / self.width.exp()
        return self.continuum(w).squeeze(-1) + (self.height * torch.exp(-0.5 * d * d)).sum(-1)


def lamp(cfg: FitConfig, seed: int = 21):
    gen = torch.Generator().manual_seed(seed)
    w = torch.linspace(0, 1, cfg.grid).unsqueeze(-1)
    flux = 0.3 + 0.1 * torch.sin(2 * math.pi * w.squeeze(-1))
    for k, c in enumerate(cfg.lines):
        flux = flux + (0.5 + 0.2 * k) * torch.exp(-0.5 * ((w.squeeze(-1) - c) / 0.02) ** 2)
    return w, flux + 0.01 * torch.randn(cfg.grid, generator=gen)


class Objective:
    def __init__(self, net: ProfileNet, smooth: float):
        self.net, self.smooth = net, smooth

    def __call__(self, w, flux):
        res = self.net(w) - flux
        return res.square().mean() + self.smooth * self.net.height.square().sum()


def coarse(net, objective, w, flux, cfg: FitConfig):
    """Adam on random sub-samples of the grid."""
    gen = torch.Generator().manual_seed(2)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.coarse_lr)
    for step in range(cfg.coarse_steps):
        pick = torch.randperm(cfg.grid, generator=gen)[: cfg.coarse_batch].to(w.device)
        opt.zero_grad()
        loss = objective(w[pick], flux[pick])
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % cfg.report_every == 0:
            print(f"coarse {step:3d} chi2 {loss.item():.5f}")


def polish(net, objective, w, flux, cfg: FitConfig):
    """Quasi-Newton steps on the whole grid."""
    params = [p for p in net.parameters() if p.requires_grad]
    opt = torch.optim.LBFGS(params, lr=cfg.polish_lr, max_iter=cfg.polish_inner)

    def closure():
        opt.zero_grad()
        loss = objective(w, flux)
        loss.backward()
        return loss

    best = float("inf")
    for step in range(cfg.polish_steps):
        loss = opt.step(closure)
        torch_xla.sync()
        best = min(best, loss.item())
        if step % cfg.report_every == 0:
            print(f"polish {step:3d} chi2 {loss.item():.6f} best {best:.6f}")
    return best


@torch.no_grad()
def summary(net, w, flux):
    res = (net(w) - flux).abs()
    top = net.height.abs().topk(4).indices
    return {
        "mean_abs": round(res.mean().item(), 5),
        "max_abs": round(res.max().item(), 5),
        "centers": [round(v, 3) for v in net.center[top].cpu().tolist()],
    }


def main():
    cfg = FitConfig()
    torch.manual_seed(4)
    device = torch_xla.device()
    net = ProfileNet(cfg.hidden).to(device)
    w, flux = (t.to(device) for t in lamp(cfg))
    objective = Objective(net, cfg.smooth)
    torch_xla.sync()
    coarse(net, objective, w, flux, cfg)
    polish(net, objective, w, flux, cfg)
    print(json.dumps({"config": asdict(cfg), "fit": summary(net, w, flux)}))


if __name__ == "__main__":
    main()
