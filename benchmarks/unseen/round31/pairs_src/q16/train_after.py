"""Unconditional latent diffusion, small U-Net, bf16 latents and autocast."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

WEIGHT_DTYPE = torch.bfloat16
T = 1000


def timestep_embedding(timesteps, dim, dtype=torch.float32, max_period=10000):
    half = dim // 2
    steps = torch.arange(half, device=timesteps.device, dtype=torch.float32)
    freqs = torch.exp(-math.log(max_period) * steps / half).to(dtype)
    args = timesteps.to(dtype)[:, None] * freqs[None]
    return torch.cat([args.cos(), args.sin()], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.in_layers = nn.Sequential(nn.GroupNorm(4, cin), nn.SiLU(), nn.Conv2d(cin, cout, 3, padding=1))
        self.emb = nn.Linear(emb, 2 * cout)
        self.norm = nn.GroupNorm(4, cout)
        self.out = nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Identity() if cin == cout else nn.Conv2d(cin, cout, 1)
        nn.init.zeros_(self.out.weight)

    def forward(self, x, emb):
        h = self.in_layers(x)
        scale, shift = self.emb(F.silu(emb))[:, :, None, None].chunk(2, 1)
        h = self.norm(h) * (1 + scale) + shift
        return self.skip(x) + self.out(F.silu(h))


class UNet(nn.Module):
    def __init__(self, ch=8, latent=4):
        super().__init__()
        self.ch = ch
        emb = 4 * ch
        self.time = nn.Sequential(nn.Linear(2 * ch, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.conv_in = nn.Conv2d(latent, ch, 3, padding=1)
        self.down1 = ResBlock(ch, ch, emb)
        self.pool = nn.Conv2d(ch, ch, 3, stride=2, padding=1)
        self.mid = ResBlock(ch, 2 * ch, emb)
        self.up = nn.ConvTranspose2d(2 * ch, 2 * ch, 2, stride=2)
        self.fuse = nn.Conv2d(3 * ch, ch, 1)
        self.norm_out = nn.GroupNorm(4, ch)
        self.conv_out = nn.Conv2d(ch, latent, 3, padding=1)

    def forward(self, sample, timesteps):
        emb = self.time(timestep_embedding(timesteps, 2 * self.ch, dtype=sample.dtype))
        x0 = self.conv_in(sample)
        d1 = self.down1(x0, emb)
        m = self.mid(self.pool(d1), emb)
        m = self.up(m)
        u = self.fuse(torch.cat([m, d1], 1))
        return self.conv_out(F.silu(self.norm_out(u)))


class Schedule:
    def __init__(self, device):
        t = torch.arange(T + 1, dtype=torch.float64) / T
        bar = torch.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2
        betas = (1 - bar[1:] / bar[:-1]).clamp(max=0.999)
        abar = torch.cumprod(1 - betas, 0).float()
        self.sqrt_abar = abar.sqrt().to(device)
        self.sqrt_1m = (1 - abar).sqrt().to(device)
        self.snr = (abar / (1 - abar)).to(device)

    def at(self, table, t):
        return table[t].view(-1, 1, 1, 1)

    def add_noise(self, x, noise, t):
        return (self.at(self.sqrt_abar, t) * x + self.at(self.sqrt_1m, t) * noise).to(x.dtype)

    def velocity(self, x, noise, t):
        return self.at(self.sqrt_abar, t) * noise - self.at(self.sqrt_1m, t) * x


def latents(steps, batch, seed=0):
    g = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:8, 0:8] / 8
    for _ in range(steps):
        f = g.uniform(1, 4, size=(batch, 4, 1, 1))
        z = np.sin(2 * np.pi * (f * xx + g.random((batch, 4, 1, 1)))) * np.cos(np.pi * f * yy)
        yield torch.from_numpy(z.astype(np.float32))


def main(steps=5, batch=8, gamma=5.0):
    torch.manual_seed(0)
    device = torch_xla.device()
    xm.set_rng_state(0, device)
    unet = UNet().to(device)
    sched = Schedule(device)
    opt = torch.optim.AdamW(unet.parameters(), lr=2e-4, betas=(0.9, 0.99), weight_decay=0.01)
    torch_xla.sync()
    for step, z in enumerate(latents(steps, batch)):
        z = (z * 0.18215).to(device, dtype=WEIGHT_DTYPE)
        noise = torch.randn_like(z)
        t = torch.randint(0, T, (batch,), device=device)
        noisy = sched.add_noise(z, noise, t)
        with torch.autocast("xla", dtype=WEIGHT_DTYPE):
            pred = unet(noisy, t)
        target = sched.velocity(z, noise, t)
        mse = F.mse_loss(pred.float(), target.float(), reduction="none").mean(dim=(1, 2, 3))
        snr = sched.snr[t]
        weight = torch.minimum(snr, torch.full_like(snr, gamma)) / (snr + 1)
        loss = (weight * mse).mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        opt.step()
        torch_xla.sync()
        print(step, round(loss.item(), 5))


if __name__ == "__main__":
    main()
