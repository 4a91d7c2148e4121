"""Convolutional VAE on 16x16 grey patches (microscopy), torch_xla."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    latent: int = 8
    width: int = 8
    batch_size: int = 16
    lr: float = 1e-3
    kl_warmup_steps: int = 8
    free_bits: float = 0.05
    grad_clip: float = 5.0
    steps: int = 12


class ResBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.norm = nn.GroupNorm(2, ch)
        self.conv = nn.Conv2d(ch, ch, 3, padding=1)

    def forward(self, x):
        return x + self.conv(F.silu(self.norm(x)))


class VAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.enc = nn.Sequential(
            nn.Conv2d(1, w, 4, stride=2, padding=1),
            ResBlock(w),
            nn.Conv2d(w, 2 * w, 4, stride=2, padding=1),
            nn.SiLU(),
        )
        self.to_stats = nn.Linear(2 * w * 16, 2 * cfg.latent)
        self.from_z = nn.Linear(cfg.latent, 2 * w * 16)
        self.dec = nn.Sequential(
            nn.ConvTranspose2d(2 * w, w, 4, stride=2, padding=1),
            ResBlock(w),
            nn.ConvTranspose2d(w, 1, 4, stride=2, padding=1),
        )
        self.width = w

    def encode(self, x):
        mu, logvar = self.to_stats(self.enc(x).flatten(1)).chunk(2, dim=1)
        return mu, logvar.clamp(-8.0, 8.0)

    def decode(self, z):
        h = self.from_z(z).view(-1, 2 * self.width, 4, 4)
        return self.dec(h)

    def forward(self, x):
        mu, logvar = self.encode(x)
        z = mu + torch.exp(0.5 * logvar) * torch.randn_like(mu)
        return self.decode(z), mu, logvar


def kl_divergence(mu, logvar, free_bits):
    kl = 0.5 * (mu.pow(2) + logvar.exp() - 1.0 - logvar)
    return kl.mean(dim=0).clamp(min=free_bits).sum()


class ElboLoss:
    def __init__(self, cfg):
        self.cfg = cfg

    def beta(self, step):
        return min(1.0, step / self.cfg.kl_warmup_steps)

    def __call__(self, recon, x, mu, logvar, step):
        rec = F.binary_cross_entropy_with_logits(recon, x, reduction="none").sum(dim=(1, 2, 3)).mean()
        kl = kl_divergence(mu, logvar, self.cfg.free_bits)
        return rec + self.beta(step) * kl, rec.detach(), kl.detach()


def train_step(model, criterion, optimizer, x, step, cfg):
    optimizer.zero_grad(set_to_none=True)
    recon, mu, logvar = model(x)
    loss, rec, kl = criterion(recon, x, mu, logvar, step)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), cfg.grad_clip)
    optimizer.step()
    return loss.detach(), rec, kl


def main():
    cfg = Config()
    torch.manual_seed(0)
    device = torch_xla.device()
    model = VAE(cfg).to(device)
    criterion = ElboLoss(cfg)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr, betas=(0.9, 0.99))
    data = torch.rand(cfg.steps, cfg.batch_size, 1, 16, 16)
    torch_xla.sync()

    for step in range(cfg.steps):
        x = data[step].to(device)
        loss, rec, kl = train_step(model, criterion, optimizer, x, step, cfg)
        torch_xla.sync()
        print(f"{step:4d} loss {loss.item():9.3f} rec {rec.item():9.3f} kl {kl.item():7.3f}", flush=True)


if __name__ == "__main__":
    main()
