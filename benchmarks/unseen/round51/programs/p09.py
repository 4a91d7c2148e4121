"""Neural topology optimisation of a heat sink (SIMP with penalty continuation).

A coordinate network with random Fourier features emits a material density; the
steady heat equation is relaxed with a warm-started Jacobi solver and the thermal
compliance is minimised under a volume constraint.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch_xla


@dataclass
class Config:
    grid: int = 16
    steps: int = 30
    jacobi: int = 4
    volume: float = 0.4
    k_min: float = 1e-2
    penal_start: float = 1.0
    penal_end: float = 3.0
    vol_weight_start: float = 1.0
    vol_weight_end: float = 20.0
    lr: float = 4e-3
    seed: int = 8


class FourierDensity(nn.Module):
    def __init__(self, n_features=24, hidden=32, scale=3.0):
        super().__init__()
        self.register_buffer("freq", scale * torch.randn(2, n_features))
        self.net = nn.Sequential(
            nn.Linear(2 * n_features, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, 1))

    def forward(self, xy):
        z = 2 * math.pi * xy @ self.freq
        logit = self.net(torch.cat([z.sin(), z.cos()], -1))
        return torch.sigmoid(logit).squeeze(-1)


def coordinates(n):
    ax = (torch.arange(n) + 0.5) / n
    yy, xx = torch.meshgrid(ax, ax, indexing="ij")
    return torch.stack([xx, yy], -1)


def shift_matrices(n):
    """Neighbour lookup with insulated (reflecting) boundaries."""
    up = torch.diag(torch.ones(n - 1), 1)
    up[-1, -1] = 1.0
    down = torch.diag(torch.ones(n - 1), -1)
    down[0, 0] = 1.0
    return up, down


class HeatSolver(nn.Module):
    def __init__(self, n, iters):
        super().__init__()
        self.iters = iters
        sink = torch.ones(n, n)
        lo, hi = n // 2 - 2, n // 2 + 2
        sink[-1, lo:hi] = 0.0
        self.register_buffer("free", sink)
        self.register_buffer("source", torch.full((n, n), 1.0 / (n * n)))
        up, down = shift_matrices(n)
        self.register_buffer("up", up)
        self.register_buffer("down", down)

    def neighbours(self, u):
        return self.up @ u, self.down @ u, u @ self.up.T, u @ self.down.T

    def forward(self, k, u):
        faces = [2 * k * kn / (k + kn) for kn in self.neighbours(k)]
        diag = sum(faces)
        for _ in range(self.iters):
            flow = sum(f * un for f, un in zip(faces, self.neighbours(u)))
            u = self.free * (self.source + flow) / diag
        return u


class Continuation:
    def __init__(self, cfg):
        self.cfg = cfg

    def _ramp(self, a, b, step, until=0.9):
        frac = min(1.0, step / (until * self.cfg.steps))
        return a + (b - a) * frac

    def penal(self, step):
        return self._ramp(self.cfg.penal_start, self.cfg.penal_end, step)

    def vol_weight(self, step):
        return self._ramp(self.cfg.vol_weight_start, self.cfg.vol_weight_end, step)


def conductivity(rho, penal, k_min):
    return k_min + (1.0 - k_min) * rho ** penal


def grayness(rho):
    return (4 * rho * (1 - rho)).mean()


def optimise(cfg):
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    xy = coordinates(cfg.grid).to(device)
    field = FourierDensity().to(device)
    solver = HeatSolver(cfg.grid, cfg.jacobi).to(device)
    schedule = Continuation(cfg)
    opt = torch.optim.Adam(field.parameters(), lr=cfg.lr)
    temperature = torch.zeros(cfg.grid, cfg.grid, device=device)
    best = torch.full((), float("inf"), device=device)

    for step in range(cfg.steps):
        rho = field(xy)
        k = conductivity(rho, schedule.penal(step), cfg.k_min)
        u = solver(k, temperature)
        compliance = (u * solver.source).sum()
        excess = torch.relu(rho.mean() - cfg.volume)
        loss = compliance + schedule.vol_weight(step) * excess.pow(2)
        opt.zero_grad()
        loss.backward()
        opt.step()
        temperature = u.detach()
        best = torch.minimum(best, loss.detach())
        torch_xla.sync()
        if (step + 1) % 10 == 0:
            print(f"{step + 1:3d} compliance {compliance.item():.4f} "
                  f"volume {rho.mean().item():.3f} p {schedule.penal(step):.2f}")

    with torch.no_grad():
        rho = field(xy)
        gray = grayness(rho)
    torch_xla.sync()
    print(f"grayness {gray.item():.3f} best {best.item():.4f}")


if __name__ == "__main__":
    optimise(Config())
