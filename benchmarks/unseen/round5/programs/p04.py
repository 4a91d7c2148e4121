"""Deep equilibrium classifier (implicit layer solved by fixed-point iteration)."""
import statistics
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class DEQConfig:
    features: int = 24
    hidden: int = 32
    classes: int = 5
    batch: int = 16
    max_iter: int = 40
    tol: float = 1e-3
    phantom_steps: int = 2
    steps: int = 50
    lr: float = 4e-3
    log_every: int = 10


class Cell(nn.Module):
    """z -> LayerNorm(tanh(W z + U x))"""

    def __init__(self, cfg):
        super().__init__()
        self.w = nn.Linear(cfg.hidden, cfg.hidden, bias=False)
        self.u = nn.Linear(cfg.features, cfg.hidden)
        self.scale = nn.Parameter(torch.ones(cfg.hidden))
        nn.init.orthogonal_(self.w.weight, gain=0.35)

    def forward(self, z, x):
        return torch.tanh(self.w(z) * self.scale + self.u(x))


class FixedPoint:
    def __init__(self, cell, max_iter, tol):
        self.cell, self.max_iter, self.tol = cell, max_iter, tol
        self.iterations = []

    @torch.no_grad()
    def solve(self, z, x):
        n = 0
        for n in range(1, self.max_iter + 1):
            z_next = self.cell(z, x)
            residual = (z_next - z).norm() / z_next.norm().clamp_min(1e-8)
            z = z_next
            if residual.item() < self.tol:
                break
        self.iterations.append(n)
        return z


class DEQNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.cell = Cell(cfg)
        self.solver = FixedPoint(self.cell, cfg.max_iter, cfg.tol)
        self.head = nn.Linear(cfg.hidden, cfg.classes)

    def forward(self, x):
        z0 = x.new_zeros(x.shape[0], self.cfg.hidden)
        z = self.solver.solve(z0, x)
        for _ in range(self.cfg.phantom_steps):
            z = 0.5 * z + 0.5 * self.cell(z, x)
        return self.head(z)


class Spirals:
    def __init__(self, cfg, seed=0):
        self.cfg, self.g = cfg, torch.Generator().manual_seed(seed)
        self.lift = torch.randn(2, cfg.features, generator=self.g)

    def __iter__(self):
        while True:
            y = torch.randint(self.cfg.classes, (self.cfg.batch,), generator=self.g)
            r = torch.rand(self.cfg.batch, generator=self.g)
            a = 4 * r + y * (6.2832 / self.cfg.classes)
            p = torch.stack([r * a.cos(), r * a.sin()], 1)
            yield p @ self.lift, y


def train(cfg=DEQConfig()):
    torch.manual_seed(3)
    device = torch_xla.device()
    net = DEQNet(cfg).to(device)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    history = []
    for step, (x, y) in enumerate(Spirals(cfg)):
        if step == cfg.steps:
            break
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        logits = net(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        opt.step()
        torch_xla.sync()
        history.append(loss.item())
        if (step + 1) % cfg.log_every == 0:
            recent = net.solver.iterations[-cfg.log_every:]
            print(f"step {step + 1:3d} loss {statistics.mean(history[-cfg.log_every:]):.3f} "
                  f"solver iterations {min(recent)}-{max(recent)}", flush=True)


if __name__ == "__main__":
    train()
