# DDPM-style training on 16x16 two-channel fields, multi-resolution noise, min-SNR weighting
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class Schedule(nn.Module):
    def __init__(self, T=100):
        super().__init__()
        self.T = T
        betas = torch.linspace(1e-4, 0.04, T)
        ac = torch.cumprod(1 - betas, dim=0)
        self.register_buffer("a", ac.sqrt())
        self.register_buffer("s", (1 - ac).sqrt())
        self.register_buffer("snr", ac / (1 - ac))

    def noisy(self, x, eps, t):
        return self.a[t][:, None, None, None] * x + self.s[t][:, None, None, None] * eps

    def weight(self, t, gamma=5.0):
        snr = self.snr[t]
        return torch.minimum(snr, torch.full_like(snr, gamma)) / snr


def time_embedding(t, dim):
    freqs = torch.exp(-math.log(1000.0) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    ang = t[:, None].float() * freqs[None]
    return torch.cat([ang.sin(), ang.cos()], dim=1)


class Denoiser(nn.Module):
    def __init__(self, ch=2, width=12, tdim=16):
        super().__init__()
        self.tdim = tdim
        self.temb = nn.Sequential(nn.Linear(tdim, width), nn.SiLU(), nn.Linear(width, width))
        self.inp = nn.Conv2d(ch, width, 3, padding=1)
        self.c1 = nn.Conv2d(width, width, 3, padding=1)
        self.c2 = nn.Conv2d(width, width, 3, padding=2, dilation=2)
        self.norm = nn.GroupNorm(3, width)
        self.out = nn.Conv2d(width, ch, 3, padding=1)

    def forward(self, x, t):
        e = self.temb(time_embedding(t, self.tdim))[:, :, None, None]
        h = self.inp(x)
        h = h + self.c1(F.silu(h + e))
        h = h + self.c2(F.silu(self.norm(h)))
        return self.out(F.silu(h))


def pyramid_noise_like(x, discount=0.8):
    b, c, w, h = x.shape
    full = (w, h)
    noise = torch.randn_like(x)
    for i in range(1, 6):
        r = random.random() * 2 + 2
        w, h = max(1, int(w / r)), max(1, int(h / r))
        low = torch.randn(b, c, w, h, device=x.device)
        noise = noise + F.interpolate(low, size=full, mode="bilinear") * discount ** i
        if w == 1 or h == 1:
            break
    return noise / noise.std()


def fields(b, size=16):
    g = torch.linspace(0, math.pi * 2, size)
    ph = torch.rand(b, 2, 1, 1) * 6.28
    k = torch.randint(1, 3, (b, 1, 1, 1)).float()
    return torch.sin(k * g[None, None, :, None] + ph) * torch.cos(g[None, None, None, :] + ph)


class LossByNoiseLevel:
    def __init__(self, T, parts=3):
        self.edges = [T * i // parts for i in range(parts + 1)]
        self.table = {i: [] for i in range(parts)}

    def record(self, t, per_sample):
        for i in range(len(self.edges) - 1):
            inside = (t >= self.edges[i]) & (t < self.edges[i + 1])
            self.table[i].append(per_sample[inside].mean())

    def summary(self):
        out = []
        for i, vals in self.table.items():
            vals = [v.item() for v in vals]
            vals = [v for v in vals if v == v]
            out.append(sum(vals) / max(1, len(vals)))
            self.table[i] = []
        return " ".join(f"{v:.3f}" for v in out)


def main(steps=14, batch=12):
    random.seed(11)
    torch.manual_seed(11)
    device = xm.xla_device()
    sched = Schedule().to(device)
    net = Denoiser().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
    stats = LossByNoiseLevel(sched.T)
    for step in range(1, steps + 1):
        x = fields(batch).to(device)
        t = torch.randint(0, sched.T, (batch,)).to(device)
        eps = pyramid_noise_like(x)
        pred = net(sched.noisy(x, eps, t), t)
        per_sample = (pred - eps).pow(2).mean(dim=(1, 2, 3))
        loss = (per_sample * sched.weight(t)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        stats.record(t, per_sample.detach())
        xm.mark_step()
        if step % 7 == 0:
            print(f"step {step} loss {loss.item():.4f} | by level {stats.summary()}")


if __name__ == "__main__":
    main()
