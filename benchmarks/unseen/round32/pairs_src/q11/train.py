"""Convolutional VAE on log-mel patches of field recordings (bird / insect calls).

The latent means are used downstream for clustering, so the KL term is warmed up
slowly to keep the posterior from collapsing in the first epochs.
"""
import argparse
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    n_mels: int = 16
    frames: int = 16
    width: int = 6
    latent: int = 8
    batch_size: int = 8
    lr: float = 1.5e-3
    kl_weight: float = 1.0
    kl_warmup: int = 6
    steps: int = 10
    seed: int = 11


class PatchStream:
    """Synthetic chirps in pink-ish noise, standardised per patch."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.rng = np.random.default_rng(cfg.seed)

    def next(self):
        c = self.cfg
        t = np.linspace(0, 1, c.frames)[None, None, :]
        m = np.arange(c.n_mels)[None, :, None]
        f0 = self.rng.uniform(2, c.n_mels - 3, (c.batch_size, 1, 1))
        slope = self.rng.normal(0, 4, (c.batch_size, 1, 1))
        ridge = np.exp(-0.5 * ((m - f0 - slope * (t - 0.5)) / 1.2) ** 2)
        x = ridge + 0.1 * self.rng.standard_normal(ridge.shape)
        x = (x - x.mean((1, 2), keepdims=True)) / (x.std((1, 2), keepdims=True) + 1e-5)
        return torch.from_numpy(x[:, None].astype(np.float32))


class Down(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(2, cout)

    def forward(self, x):
        return F.silu(self.norm(self.conv(x)))


class Up(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.ConvTranspose2d(cin, cout, 4, stride=2, padding=1)

    def forward(self, x):
        return F.silu(self.conv(x))


class PatchVAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.grid = (cfg.n_mels // 4, cfg.frames // 4)
        flat = 2 * w * self.grid[0] * self.grid[1]
        self.enc = nn.Sequential(Down(1, w), Down(w, 2 * w))
        self.to_stats = nn.Linear(flat, 2 * cfg.latent)
        self.from_z = nn.Linear(cfg.latent, flat)
        self.dec = nn.Sequential(Up(2 * w, w), nn.ConvTranspose2d(w, 1, 4, stride=2, padding=1))
        self.obs_logvar = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.to_stats(h.flatten(1)).chunk(2, dim=-1)
        logvar = logvar.clamp(-8.0, 4.0)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        h = self.from_z(z).unflatten(1, (h.shape[1], *self.grid))
        return self.dec(h), mu, logvar


def gaussian_nll(x, mean, logvar):
    return 0.5 * ((x - mean).square() * torch.exp(-logvar) + logvar).flatten(1).sum(-1)


def kl_to_prior(mu, logvar):
    return 0.5 * (mu.square() + logvar.exp() - 1.0 - logvar).sum(-1)


class Warmup:
    """Linear ramp for a loss weight; holds its final value afterwards."""

    def __init__(self, final, steps):
        self.final = final
        self.steps = steps

    def __call__(self, step):
        return self.final * min(1.0, (step + 1) / self.steps)


def train(cfg):
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    model = PatchVAE(cfg).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr, betas=(0.9, 0.98))
    beta_at = Warmup(cfg.kl_weight, cfg.kl_warmup)
    stream = PatchStream(cfg)

    history = []
    for step in range(cfg.steps):
        x = stream.next().to(device)
        recon, mu, logvar = model(x)
        nll = gaussian_nll(x, recon, model.obs_logvar).mean()
        kl = kl_to_prior(mu, logvar).mean()
        loss = nll + beta_at(step) * kl

        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        torch_xla.sync()
        history.append((step, loss.detach(), kl.detach()))

    for step, loss, kl in history:
        print(f"step {step:3d}  loss {loss.item():9.3f}  kl {kl.item():7.3f}  beta {beta_at(step):.3f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=Config.steps)
    p.add_argument("--kl-warmup", type=int, default=Config.kl_warmup)
    a = p.parse_args()
    train(Config(steps=a.steps, kl_warmup=a.kl_warmup))
