"""Class-conditional DDPM on 2-D point clouds, EMA weights, DDIM previews with guidance."""
import copy
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

T = 100
N_CLASSES = 4
NULL_CLASS = N_CLASSES


def moons_and_rings(n, rng):
    y = rng.randint(0, N_CLASSES, n)
    ang = rng.uniform(0, 2 * math.pi, n)
    radius = 0.5 + 0.25 * (y % 2)
    center = np.where(y < 2, -1.0, 1.0)
    pts = np.stack([center + radius * np.cos(ang), radius * np.sin(ang)], 1)
    pts += 0.03 * rng.randn(n, 2)
    return torch.from_numpy(pts.astype("float32")), torch.from_numpy(y)


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000.0) * torch.arange(half, device=t.device) / half)
    arg = t.float()[:, None] * freqs[None]
    return torch.cat([arg.cos(), arg.sin()], dim=1)


class Denoiser(nn.Module):
    def __init__(self, width=64, depth=3):
        super().__init__()
        self.inp = nn.Linear(2, width)
        self.time = nn.Sequential(nn.Linear(32, width), nn.SiLU(), nn.Linear(width, width))
        self.label = nn.Embedding(N_CLASSES + 1, width)
        self.mods = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(depth))
        self.mlps = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.SiLU()) for _ in range(depth))
        self.out = nn.Linear(width, 2)

    def forward(self, x, t, y):
        cond = F.silu(self.time(timestep_embedding(t, 32)) + self.label(y))
        h = self.inp(x)
        for mod, mlp in zip(self.mods, self.mlps):
            scale, shift = mod(cond).chunk(2, dim=1)
            h = h + mlp(h * (1 + scale) + shift)
        return self.out(h)


class Schedule:
    def __init__(self, device):
        s = torch.linspace(0, 1, T + 1)
        bar = torch.cos((s + 0.008) / 1.008 * math.pi / 2) ** 2
        self.bar = (bar[1:] / bar[0]).clamp(1e-4, 0.9999).to(device)

    def add_noise(self, x0, eps, t):
        a = self.bar[t].unsqueeze(1)
        return a.sqrt() * x0 + (1 - a).sqrt() * eps


@torch.no_grad()
def ddim(model, sched, labels, n_steps, guidance, device):
    """Deterministic sampling; one graph execution per denoising step."""
    model.eval()
    grid = np.linspace(T - 1, 0, n_steps).round().astype(int)
    x = torch.randn(labels.size(0), 2, device=device)
    null = torch.full_like(labels, NULL_CLASS)
    for k, cur in enumerate(grid):
        t = torch.full((labels.size(0),), int(cur), device=device, dtype=torch.long)
        cond, uncond = model(x, t, labels), model(x, t, null)
        eps = uncond + guidance * (cond - uncond)
        a = sched.bar[t].unsqueeze(1)
        x0 = (x - (1 - a).sqrt() * eps) / a.sqrt()
        if k + 1 < len(grid):
            prev = torch.full_like(t, int(grid[k + 1]))
            b = sched.bar[prev].unsqueeze(1)
            x = b.sqrt() * x0 + (1 - b).sqrt() * eps
        else:
            x = x0
        torch_xla.sync()
    model.train()
    return x.cpu()


@torch.no_grad()
def ema_update(ema, model, decay):
    for e, p in zip(ema.parameters(), model.parameters()):
        e.lerp_(p, 1.0 - decay)


def train(steps=64, batch=64, ema_every=4, preview_every=16):
    rng = np.random.RandomState(17)
    torch.manual_seed(17)
    device = torch_xla.device()
    points, classes = moons_and_rings(2048, rng)

    model = Denoiser().to(device)
    ema = copy.deepcopy(model).requires_grad_(False)
    sched = Schedule(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
    preview_labels = torch.arange(32).remainder(N_CLASSES).to(device)

    for step in range(1, steps + 1):
        for g in opt.param_groups:
            g["lr"] = 2e-3 * min(1.0, step / 10)
        idx = torch.from_numpy(rng.randint(0, len(points), batch))
        x0, y = points[idx].to(device), classes[idx].to(device)
        t = torch.randint(0, T, (batch,)).to(device)
        drop = torch.rand(batch, device=device) < 0.15
        y = torch.where(drop, torch.full_like(y, NULL_CLASS), y)

        eps = torch.randn_like(x0)
        pred = model(sched.add_noise(x0, eps, t), t, y)
        loss = F.mse_loss(pred, eps)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % ema_every == 0:
            ema_update(ema, model, min(0.99, (1 + step) / (10 + step)))
        torch_xla.sync()

        if step % preview_every == 0:
            pts = ddim(ema, sched, preview_labels, n_steps=12, guidance=1.5, device=device)
            print(f"step {step:3d}  mse {loss.item():.4f}  preview std {pts.std():.3f}")


if __name__ == "__main__":
    train()
