"""Unconditional DDPM on 8x8 synthetic blobs, with previews during training."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    size: int = 8
    channels: int = 12
    timesteps: int = 24
    batch_size: int = 16
    lr: float = 2e-3
    steps: int = 60
    preview_every: int = 20
    preview_n: int = 4
    seed: int = 7


def blobs(n, size, g):
    """Gaussian bumps at random places, range [-1, 1]."""
    c = torch.rand(n, 2, generator=g) * size
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    d = (yy[None] - c[:, 0, None, None]) ** 2 + (xx[None] - c[:, 1, None, None]) ** 2
    return (2 * torch.exp(-d / 4.0) - 1)[:, None]


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        half = dim // 2
        freqs = torch.exp(-math.log(1000.0) * torch.arange(half) / half)
        self.register_buffer("freqs", freqs)
        self.proj = nn.Linear(dim, dim)

    def forward(self, t):
        a = t.float()[:, None] * self.freqs[None]
        return self.proj(torch.cat([a.sin(), a.cos()], dim=-1))


class Denoiser(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.temb = TimeEmbedding(ch)
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.mid = nn.Conv2d(ch, ch, 3, padding=1)
        self.out = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x, t):
        h = F.silu(self.inp(x))
        h = h + self.temb(t)[:, :, None, None]
        h = h + F.silu(self.mid(h))
        return self.out(h)


class GaussianDiffusion(nn.Module):
    def __init__(self, model, cfg):
        super().__init__()
        self.model = model
        self.cfg = cfg
        betas = torch.linspace(1e-3, 0.2, cfg.timesteps)
        alphas = 1.0 - betas
        abar = torch.cumprod(alphas, 0)
        self.register_buffer("betas", betas)
        self.register_buffer("alphas", alphas)
        self.register_buffer("abar", abar)

    def q_sample(self, x0, t, noise):
        a = self.abar[t][:, None, None, None]
        return a.sqrt() * x0 + (1 - a).sqrt() * noise

    def loss(self, x0, t):
        noise = torch.randn_like(x0)
        pred = self.model(self.q_sample(x0, t, noise), t)
        return F.mse_loss(pred, noise)

    @torch.no_grad()
    def p_sample(self, x, t):
        tt = torch.full((x.shape[0],), t, dtype=torch.long, device=x.device)
        eps = self.model(x, tt)
        beta, alpha, abar = self.betas[t], self.alphas[t], self.abar[t]
        mean = (x - beta / (1 - abar).sqrt() * eps) / alpha.sqrt()
        if t == 0:
            return mean
        return mean + beta.sqrt() * torch.randn_like(x)

    @torch.no_grad()
    def sample(self, n):
        dev = self.betas.device
        x = torch.randn(n, 1, self.cfg.size, self.cfg.size, device=dev)
        for t in reversed(range(self.cfg.timesteps)):
            x = self.p_sample(x, t)
            torch_xla.sync()
        return x.clamp(-1, 1)


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    device = torch_xla.device()
    data = blobs(512, cfg.size, gen)
    diffusion = GaussianDiffusion(Denoiser(cfg.channels), cfg).to(device)
    opt = torch.optim.AdamW(diffusion.parameters(), lr=cfg.lr)

    for step in range(1, cfg.steps + 1):
        idx = torch.randint(0, len(data), (cfg.batch_size,), generator=gen)
        t = torch.randint(0, cfg.timesteps, (cfg.batch_size,), generator=gen)
        x0, t = data[idx].to(device), t.to(device)
        opt.zero_grad()
        loss = diffusion.loss(x0, t)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % cfg.preview_every == 0:
            imgs = diffusion.sample(cfg.preview_n).cpu()
            print(f"step {step:3d}  loss {loss.item():.4f}  "
                  f"preview mean {imgs.mean():+.3f} std {imgs.std():.3f}")


if __name__ == "__main__":
    main()
