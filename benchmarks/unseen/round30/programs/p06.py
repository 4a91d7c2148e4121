"""Fit a point-cloud generator with an entropic OT (Sinkhorn) loss."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


def two_moons(n, rng):
    t = rng.uniform(0, math.pi, size=n)
    upper = rng.rand(n) < 0.5
    x = np.where(upper, np.cos(t), 1 - np.cos(t))
    y = np.where(upper, np.sin(t), 0.5 - np.sin(t))
    pts = np.stack([x, y], 1) + 0.05 * rng.randn(n, 2)
    return torch.from_numpy(pts.astype(np.float32))


def pairwise_cost(x, y):
    return (x[:, None, :] - y[None, :, :]).pow(2).sum(-1)


class SinkhornLoss(nn.Module):

    def __init__(self, eps=0.25, max_iter=40, tol=2e-2):
        super().__init__()
        self.eps = eps
        self.max_iter = max_iter
        self.tol = tol

    def forward(self, x, y):
        n, m = x.shape[0], y.shape[0]
        cost = pairwise_cost(x, y)
        log_a, log_b = -math.log(n), -math.log(m)
        f = torch.zeros(n, device=x.device)
        g = torch.zeros(m, device=x.device)
        for it in range(self.max_iter):
            f_prev = f
            f = self.eps * (log_a - torch.logsumexp((g[None, :] - cost) / self.eps, dim=1))
            g = self.eps * (log_b - torch.logsumexp((f[:, None] - cost) / self.eps, dim=0))
            if (f - f_prev).abs().mean() < self.tol:
                break
        plan = torch.exp((f[:, None] + g[None, :] - cost) / self.eps)
        return (plan * cost).sum(), it + 1


class PointGenerator(nn.Module):

    def __init__(self, z_dim=4, hidden=24):
        super().__init__()
        self.z_dim = z_dim
        self.body = nn.Sequential(
            nn.Linear(z_dim, hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.SiLU(),
            nn.Linear(hidden, 2),
        )

    def forward(self, z):
        return self.body(z)


def fit(steps=40, batch=24, lr=5e-3, log_every=10):
    rng = np.random.RandomState(5)
    torch.manual_seed(5)
    dev = xm.xla_device()
    gen = PointGenerator().to(dev)
    criterion = SinkhornLoss()
    opt = torch.optim.RMSprop(gen.parameters(), lr=lr)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.99)
    used = []
    for step in range(steps):
        data = two_moons(batch, rng).to(dev)
        z = torch.from_numpy(rng.randn(batch, gen.z_dim).astype(np.float32)).to(dev)
        opt.zero_grad()
        loss, iters = criterion(gen(z), data)
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        sched.step()
        used.append(iters)
        if (step + 1) % log_every == 0:
            print(f"[{step + 1:3d}] ot {loss.item():.4f}  "
                  f"sinkhorn iterations min/mean/max {min(used)}/{np.mean(used):.1f}/{max(used)}")
            used.clear()
    return gen


if __name__ == "__main__":
    fit()
