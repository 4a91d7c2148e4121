"""Tiny DDPM on 8x8 procedurally drawn glyphs (PyTorch/XLA)."""
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = dict(
    timesteps=24,
    dim=16,
    batch=16,
    steps=60,
    sample_every=20,
    n_samples=4,
    lr=2e-3,
    seed=7,
)


def glyphs(n, rng):
    out = np.full((n, 1, 8, 8), -1.0, dtype=np.float32)
    for i in range(n):
        r, c = rng.randint(1, 5, size=2)
        if rng.rand() < 0.5:
            out[i, 0, r, 1:7] = 1.0
            out[i, 0, 1:7, c] = 1.0
        else:
            out[i, 0, r:r + 3, c:c + 3] = 1.0
    return torch.from_numpy(out)


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(1000.0) * torch.arange(half, device=t.device) / half)
    args = t.float()[:, None] * freqs[None]
    return torch.cat([args.sin(), args.cos()], dim=-1)


class Denoiser(nn.Module):

    def __init__(self, dim):
        super().__init__()
        self.dim = dim
        self.inp = nn.Conv2d(1, dim, 3, padding=1)
        self.temb = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.mid = nn.Conv2d(dim, dim, 3, padding=1)
        self.norm = nn.GroupNorm(4, dim)
        self.out = nn.Conv2d(dim, 1, 3, padding=1)

    def forward(self, x, t):
        h = self.inp(x)
        h = h + self.temb(timestep_embedding(t, self.dim))[:, :, None, None]
        h = h + self.mid(F.silu(self.norm(h)))
        return self.out(F.silu(h))


class Diffusion:

    def __init__(self, model, timesteps, device):
        self.model = model
        self.T = timesteps
        self.device = device
        betas = torch.linspace(1e-3, 0.15, timesteps)
        alphas = 1.0 - betas
        abar = torch.cumprod(alphas, 0)
        self.betas = betas.to(device)
        self.alphas = alphas.to(device)
        self.sqrt_abar = abar.sqrt().to(device)
        self.sqrt_1m_abar = (1.0 - abar).sqrt().to(device)

    def q_sample(self, x0, t, noise):
        a = self.sqrt_abar.index_select(0, t).view(-1, 1, 1, 1)
        s = self.sqrt_1m_abar.index_select(0, t).view(-1, 1, 1, 1)
        return a * x0 + s * noise

    def loss(self, x0, t):
        noise = torch.randn_like(x0)
        xt = self.q_sample(x0, t, noise)
        return F.mse_loss(self.model(xt, t), noise)

    @torch.no_grad()
    def sample(self, n):
        self.model.eval()
        x = torch.randn(n, 1, 8, 8, device=self.device)
        steps = torch.arange(self.T)
        for i in reversed(range(self.T)):
            t = steps[i].repeat(n).to(self.device)
            eps = self.model(x, t)
            coef = self.betas[i] / self.sqrt_1m_abar[i]
            mean = (x - coef * eps) / self.alphas[i].sqrt()
            x = mean + self.betas[i].sqrt() * torch.randn_like(x)
            torch_xla.sync()
        self.model.train()
        return x.clamp(-1, 1).cpu()


def main():
    random.seed(CFG["seed"])
    torch.manual_seed(CFG["seed"])
    rng = np.random.RandomState(CFG["seed"])
    device = torch_xla.device()

    model = Denoiser(CFG["dim"]).to(device)
    diff = Diffusion(model, CFG["timesteps"], device)
    opt = torch.optim.AdamW(model.parameters(), lr=CFG["lr"])

    for step in range(1, CFG["steps"] + 1):
        x0 = glyphs(CFG["batch"], rng).to(device)
        t = torch.from_numpy(rng.randint(0, CFG["timesteps"], size=CFG["batch"])).to(device)
        opt.zero_grad()
        loss = diff.loss(x0, t)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 10 == 0:
            print(f"step {step:4d} loss {loss.item():.4f}")
        if step % CFG["sample_every"] == 0:
            imgs = diff.sample(CFG["n_samples"])
            print(f"  samples: mean {imgs.mean().item():+.3f} std {imgs.std().item():.3f}")
    xm.wait_device_ops()


if __name__ == "__main__":
    main()
