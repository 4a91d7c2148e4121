"""Energy-based model of calorimeter shower profiles, persistent chains and a two-phase fit."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Settings:
    layers: int = 18
    chains: int = 96
    batch: int = 24
    steps: int = 56
    short_run: int = 5
    long_run: int = 15
    renew_every: int = 7
    calibration_from: int = 20
    step_size: float = 0.02
    noise: float = 0.02
    seed: int = 29


class Showers:
    """Longitudinal energy deposits: gamma profiles with fluctuating depth."""

    def __init__(self, layers, rng):
        self.layers, self.rng = layers, rng
        self.x = np.linspace(0.3, 12, layers)

    def draw(self, n):
        a = self.rng.normal(4.0, 0.5, (n, 1))
        b = self.rng.normal(0.55, 0.05, (n, 1)).clip(0.3)
        prof = self.x ** (a - 1) * np.exp(-b * self.x)
        prof /= prof.sum(1, keepdims=True)
        prof *= self.layers * 0.25 * self.rng.lognormal(0, 0.15, (n, 1))
        return torch.from_numpy((prof + self.rng.normal(0, 0.01, prof.shape)).astype(np.float32))


class Energy(nn.Module):
    def __init__(self, layers, width=40):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(layers, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU())
        self.head = nn.Linear(width, 1)
        self.log_scale = nn.Parameter(torch.zeros(layers))

    def forward(self, x):
        return self.head(self.trunk(x * self.log_scale.exp())).squeeze(-1) + 0.05 * (x ** 2).sum(-1)


def langevin(energy, x, steps, step_size, noise):
    for _ in range(steps):
        x = x.detach().requires_grad_(True)
        grad, = torch.autograd.grad(energy(x).sum(), x)
        x = x - step_size * grad.clamp(-5.0, 5.0) + noise * torch.randn_like(x)
    return x.detach()


class Chains:
    def __init__(self, cfg, rng, device):
        self.cfg, self.rng = cfg, rng
        self.state = torch.rand(cfg.chains, cfg.layers).to(device)

    def advance(self, energy):
        cfg = self.cfg
        rows = torch.from_numpy(self.rng.choice(cfg.chains, cfg.batch, replace=False)).to(self.state.device)
        x = langevin(energy, self.state[rows], cfg.short_run, cfg.step_size, cfg.noise)
        self.state.index_copy_(0, rows, x)
        return x

    def renew(self, energy):
        cfg = self.cfg
        fresh = torch.rand(cfg.batch, cfg.layers).to(self.state.device)
        fresh = langevin(energy, fresh, cfg.long_run, cfg.step_size, cfg.noise)
        rows = torch.from_numpy(self.rng.choice(cfg.chains, cfg.batch, replace=False)).to(self.state.device)
        self.state.index_copy_(0, rows, fresh)


def make_optimizer(model, phase):
    if phase == "shape":
        return torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.0, 0.99))
    model.trunk.requires_grad_(False)
    return torch.optim.SGD([*model.head.parameters(), model.log_scale], lr=5e-3, momentum=0.8)


def main():
    cfg = Settings()
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    device = torch_xla.device()
    showers = Showers(cfg.layers, rng)
    model = Energy(cfg.layers).to(device)
    chains = Chains(cfg, rng, device)
    optimizer, phase = make_optimizer(model, "shape"), "shape"

    gaps = []
    for step in range(cfg.steps):
        if step == cfg.calibration_from:
            optimizer.zero_grad()
            optimizer, phase = make_optimizer(model, "calibration"), "calibration"
        if step % cfg.renew_every == 0:
            chains.renew(model)
            xm.mark_step()
        negative = chains.advance(model)
        xm.mark_step()

        positive = showers.draw(cfg.batch).to(device)
        e_pos, e_neg = model(positive), model(negative)
        loss = (e_pos - e_neg).mean() + 0.05 * (e_pos ** 2 + e_neg ** 2).mean()
        if phase == "calibration":
            loss = loss + 0.1 * F.mse_loss(model.log_scale, torch.zeros_like(model.log_scale))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        xm.mark_step()
        gaps.append((e_pos - e_neg).mean().detach())
        if (step + 1) % 8 == 0:
            print(f"step {step + 1:3d}  {phase:11s}  energy gap {torch.stack(gaps).mean().item():+.4f}")
            gaps.clear()


if __name__ == "__main__":
    main()
