"""Tiny DDPM on 8x8 blobs with DDIM previews during training."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    timesteps: int = 120
    ddim_steps: int = 20
    width: int = 16
    batch: int = 16
    steps: int = 120
    preview_every: int = 30
    n_preview: int = 8
    lr: float = 2e-3


def blobs(n, gen):
    c = torch.rand(n, 2, generator=gen) * 4 + 2
    yy, xx = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    d = (yy - c[:, 0, None, None]) ** 2 + (xx - c[:, 1, None, None]) ** 2
    return (2 * torch.exp(-d / 3.0) - 1).unsqueeze(1)


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(1000.0) * torch.arange(half, device=t.device) / half)
    ang = t.float()[:, None] * freqs[None]
    return torch.cat([ang.sin(), ang.cos()], -1)


class Block(nn.Module):
    def __init__(self, ch, emb):
        super().__init__()
        self.norm = nn.GroupNorm(4, ch)
        self.conv = nn.Conv2d(ch, ch, 3, padding=1)
        self.proj = nn.Linear(emb, ch)

    def forward(self, x, e):
        h = self.conv(F.silu(self.norm(x)))
        return x + h + self.proj(e)[:, :, None, None]


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.inp = nn.Conv2d(1, width, 3, padding=1)
        self.blocks = nn.ModuleList(Block(width, width) for _ in range(2))
        self.out = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x, t):
        e = timestep_embedding(t, self.width)
        h = self.inp(x)
        for b in self.blocks:
            h = b(h, e)
        return self.out(F.silu(h))


class Diffusion(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        betas = torch.linspace(1e-4, 0.06, cfg.timesteps)
        self.register_buffer("alpha_bar", torch.cumprod(1 - betas, 0))
        self.net = Denoiser(cfg.width)

    def loss(self, x0, t, noise):
        ab = self.alpha_bar[t].view(-1, 1, 1, 1)
        xt = ab.sqrt() * x0 + (1 - ab).sqrt() * noise
        return F.mse_loss(self.net(xt, t), noise)

    @torch.no_grad()
    def ddim(self, x):
        stride = self.cfg.timesteps // self.cfg.ddim_steps
        seq = list(range(stride - 1, self.cfg.timesteps, stride))
        prev = [0] + seq[:-1]
        for t, s in zip(reversed(seq), reversed(prev)):
            tb = torch.tensor([t] * x.size(0)).to(x.device)
            a_t, a_s = self.alpha_bar[t], self.alpha_bar[s]
            eps = self.net(x, tb)
            x0 = ((x - (1 - a_t).sqrt() * eps) / a_t.sqrt()).clamp(-1, 1)
            x = a_s.sqrt() * x0 + (1 - a_s).sqrt() * eps
            xm.mark_step()
        return x


def main():
    cfg = Config()
    gen = torch.Generator().manual_seed(5)
    torch.manual_seed(5)
    device = xm.xla_device()
    model = Diffusion(cfg).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    fixed = torch.randn(cfg.n_preview, 1, 8, 8, generator=gen)

    for step in range(1, cfg.steps + 1):
        x0 = blobs(cfg.batch, gen).to(device)
        t = torch.randint(0, cfg.timesteps, (cfg.batch,), generator=gen).to(device)
        noise = torch.randn(cfg.batch, 1, 8, 8, generator=gen).to(device)
        loss = model.loss(x0, t, noise)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt, barrier=True)

        if step % cfg.preview_every == 0:
            img = model.ddim(fixed.to(device)).cpu()
            print(f"[{step}] loss={loss.item():.4f} preview min={img.min():.2f} max={img.max():.2f}")


if __name__ == "__main__":
    main()
