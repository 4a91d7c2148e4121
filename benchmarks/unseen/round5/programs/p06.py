"""Denoising diffusion on 2-channel 12x12 fields: training, EMA weights, DDIM previews."""
import copy
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class DiffusionConfig:
    channels: int = 2
    size: int = 12
    width: int = 16
    timesteps: int = 200
    batch: int = 8
    steps: int = 100
    warmup: int = 15
    lr: float = 2e-3
    ema: float = 0.98
    ema_start: int = 10
    preview_every: int = 20
    preview_steps: int = 10


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        half = dim // 2
        self.register_buffer("freq", torch.exp(-math.log(1e4) * torch.arange(half) / half))
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        a = t.float()[:, None] * self.freq
        return self.mlp(torch.cat([a.sin(), a.cos()], dim=-1))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.GroupNorm(4, c)
        self.conv1 = nn.Conv2d(c, c, 3, padding=1)
        self.conv2 = nn.Conv2d(c, c, 3, padding=1)
        self.time = nn.Linear(c, c)

    def forward(self, x, emb):
        h = self.conv1(F.silu(self.norm(x))) + self.time(emb)[:, :, None, None]
        return x + self.conv2(F.silu(h))


class Denoiser(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.temb = TimeEmbedding(cfg.width)
        self.inp = nn.Conv2d(cfg.channels, cfg.width, 3, padding=1)
        self.blocks = nn.ModuleList(Block(cfg.width) for _ in range(2))
        self.out = nn.Conv2d(cfg.width, cfg.channels, 3, padding=1)

    def forward(self, x, t):
        emb = self.temb(t)
        h = self.inp(x)
        for block in self.blocks:
            h = block(h, emb)
        return self.out(h)


class Schedule(nn.Module):
    def __init__(self, n):
        super().__init__()
        beta = torch.linspace(1e-4, 0.04, n)
        self.register_buffer("abar", torch.cumprod(1 - beta, 0))

    def forward(self, t):
        return self.abar[t][:, None, None, None]


def waves(cfg, gen):
    ax = torch.linspace(0, 2 * math.pi, cfg.size)
    k = torch.randint(1, 3, (cfg.batch, cfg.channels, 1, 1), generator=gen)
    ph = torch.rand(cfg.batch, cfg.channels, 1, 1, generator=gen) * 6.28
    return torch.sin(k * ax[None, None, :, None] + ph) * torch.cos(k * ax[None, None, None, :])


class Trainer:
    def __init__(self, cfg):
        torch.manual_seed(11)
        self.cfg, self.device = cfg, torch_xla.device()
        self.net = Denoiser(cfg).to(self.device)
        self.ema_net = copy.deepcopy(self.net).requires_grad_(False)
        self.schedule = Schedule(cfg.timesteps).to(self.device)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=cfg.lr)
        self.lr = torch.optim.lr_scheduler.LambdaLR(
            self.opt, lambda s: min(1.0, (s + 1) / (cfg.warmup + 0.5)))

    def step(self, x, index):
        t = torch.randint(0, self.cfg.timesteps, (x.shape[0],)).to(self.device)
        noise = torch.randn_like(x)
        a = self.schedule(t)
        loss = F.mse_loss(self.net(a.sqrt() * x + (1 - a).sqrt() * noise, t), noise)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.lr.step()
        if index >= self.cfg.ema_start:
            with torch.no_grad():
                for e, p in zip(self.ema_net.parameters(), self.net.parameters()):
                    e.mul_(self.cfg.ema).add_(p, alpha=1 - self.cfg.ema)
        torch_xla.sync()
        return loss

    @torch.no_grad()
    def preview(self):
        cfg = self.cfg
        x = torch.randn(4, cfg.channels, cfg.size, cfg.size).to(self.device)
        times = torch.linspace(cfg.timesteps - 1, 0, cfg.preview_steps + 1).long()
        torch_xla.sync()
        for now, nxt in zip(times[:-1], times[1:]):
            t, s = (v.repeat(4).to(self.device) for v in (now, nxt))
            eps = self.ema_net(x, t)
            at, as_ = self.schedule(t), self.schedule(s)
            x0 = ((x - (1 - at).sqrt() * eps) / at.sqrt()).clamp(-1.5, 1.5)
            x = as_.sqrt() * x0 + (1 - as_).sqrt() * eps
            torch_xla.sync()
        return x.cpu()

    def run(self):
        gen = torch.Generator().manual_seed(0)
        for i in range(self.cfg.steps):
            loss = self.step(waves(self.cfg, gen).to(self.device), i)
            if (i + 1) % self.cfg.preview_every == 0:
                img = self.preview()
                print(f"{i + 1:4d} loss {loss.item():.4f} preview std {img.std():.3f}", flush=True)


if __name__ == "__main__":
    Trainer(DiffusionConfig()).run()
