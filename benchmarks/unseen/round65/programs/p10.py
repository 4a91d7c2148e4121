"""Denoising diffusion for ocean temperature profiles, with self-conditioning.

Half of the updates first make an estimate of the clean profile and feed it
back; a slow copy of the weights is sampled from now and then.
"""
import copy
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

LEVELS = 24
T = 100
SAMPLE_STEPS = 5


def cosine_table(n):
    t = torch.linspace(0, 1, n + 1)
    ac = torch.cos((t + 0.008) / 1.008 * math.pi / 2).pow(2)
    return (ac / ac[0]).clamp(1e-4, 0.9999)[1:]


def profiles(batch, gen):
    z = torch.linspace(0, 1, LEVELS)
    mixed = 0.1 + 0.3 * torch.rand(batch, 1, generator=gen)
    sharp = 8 + 10 * torch.rand(batch, 1, generator=gen)
    surface = 0.6 + 0.4 * torch.rand(batch, 1, generator=gen)
    x = surface * torch.sigmoid(-sharp * (z - mixed)) * 2 - 1
    return x + 0.02 * torch.randn(x.shape, generator=gen)


class Denoiser(nn.Module):
    def __init__(self, width=32, depth=2):
        super().__init__()
        self.register_buffer("freq", torch.exp(torch.linspace(0, -6, width // 2)))
        self.inp = nn.Linear(2 * LEVELS, width)
        self.film = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(depth))
        self.mix = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.out = nn.Linear(width, LEVELS)

    def forward(self, x, t, estimate):
        a = t.float().unsqueeze(1) * self.freq
        emb = torch.cat([a.sin(), a.cos()], dim=1)
        h = self.inp(torch.cat([x, estimate], dim=1))
        for film, mix in zip(self.film, self.mix):
            scale, shift = film(emb).chunk(2, dim=1)
            h = h + F.silu(mix(h) * (1 + scale) + shift)
        return self.out(h)


class Diffusion:
    def __init__(self, device):
        self.device = device
        self.ac = cosine_table(T).to(device)
        self.grid = torch.linspace(T - 1, 0, SAMPLE_STEPS).long().to(device)

    def loss(self, model, x0, self_condition):
        t = torch.randint(0, T, (x0.shape[0],), device=self.device)
        a = self.ac[t].unsqueeze(1)
        noisy = a.sqrt() * x0 + (1 - a).sqrt() * torch.randn_like(x0)
        estimate = torch.zeros_like(x0)
        if self_condition:
            with torch.no_grad():
                estimate = model(noisy, t, estimate)
        weight = (a / (1 - a)).clamp(max=5.0)
        return (weight * (model(noisy, t, estimate) - x0).pow(2)).mean()

    @torch.no_grad()
    def sample(self, model, n):
        x = torch.randn(n, LEVELS, device=self.device)
        estimate = torch.zeros_like(x)
        for i in range(SAMPLE_STEPS):
            t = self.grid[i].expand(n)
            a = self.ac[t].unsqueeze(1)
            estimate = model(x, t, estimate).clamp(-1.2, 1.2)
            if i + 1 < SAMPLE_STEPS:
                nxt = self.ac[self.grid[i + 1].expand(n)].unsqueeze(1)
                eps = (x - a.sqrt() * estimate) / (1 - a).sqrt()
                x = nxt.sqrt() * estimate + (1 - nxt).sqrt() * eps
        xm.mark_step()
        return estimate


class SlowCopy:
    def __init__(self, model, decay):
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model, step):
        d = min(self.decay, (1 + step) / (10 + step))
        for s, p in zip(self.model.parameters(), model.parameters()):
            s.lerp_(p, 1 - d)


def main(steps=30, batch=32):
    random.seed(67)
    torch.manual_seed(67)
    gen = torch.Generator().manual_seed(71)
    device = torch_xla.device()
    model = Denoiser().to(device)
    slow = SlowCopy(model, decay=0.98)
    diffusion = Diffusion(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)

    for step in range(steps):
        x0 = profiles(batch, gen).to(device)
        loss = diffusion.loss(model, x0, self_condition=random.random() < 0.5)
        opt.zero_grad()
        loss.backward()
        opt.step()
        slow.update(model, step)
        xm.mark_step()
        if step % 10 == 9:
            drawn = diffusion.sample(slow.model, 16).cpu()
            print(f"{step} loss {loss.item():.4f} surface {drawn[:, 0].mean():.3f} "
                  f"bottom {drawn[:, -1].mean():.3f}")


if __name__ == "__main__":
    main()
