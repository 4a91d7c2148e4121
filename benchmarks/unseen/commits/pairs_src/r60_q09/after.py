"""DDPM on 8x8 glyphs, bfloat16 autocast, noise prediction, cosine schedule."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

TIMESTEPS, BATCH, WIDTH, STEPS = 200, 8, 8, 10


def norm(channels):
    return nn.GroupNorm(4, channels)


class TimeEmbedding(nn.Module):
    def __init__(self, width, dim):
        super().__init__()
        self.width = width
        self.net = nn.Sequential(nn.Linear(width, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        half = self.width // 2
        freqs = torch.exp(-math.log(10000.0) * torch.arange(half, device=t.device) / half)
        arg = t.float()[:, None] * freqs[None]
        return self.net(torch.cat([arg.cos(), arg.sin()], dim=-1))


class ResBlock(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.norm1, self.norm2 = norm(cin), norm(cout)
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.emb = nn.Linear(emb, cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, emb):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.emb(F.silu(emb))[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return self.skip(x) + h


class UNet(nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        emb = 2 * width
        self.time = TimeEmbedding(width, emb)
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.mid = ResBlock(width, 2 * width, emb)
        self.up = ResBlock(3 * width, width, emb)
        self.out = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x, t):
        emb = self.time(t)
        h0 = self.stem(x)
        h = F.avg_pool2d(h0, 2)
        h = self.mid(h, emb)
        h = h.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
        return self.out(F.silu(self.up(torch.cat([h, h0], dim=1), emb)))


class Diffusion:
    def __init__(self, device, gamma=5.0):
        s = torch.linspace(0, 1, TIMESTEPS + 1, dtype=torch.float64)
        bar = torch.cos((s + 0.008) / 1.008 * math.pi / 2) ** 2
        bar = (bar / bar[0])[1:].clamp(1e-4, 0.9999).float()
        self.sqrt_bar = bar.sqrt().to(device)
        self.sqrt_one_minus = (1 - bar).sqrt().to(device)
        snr = bar / (1 - bar)
        self.weight = (snr.clamp(max=gamma) / snr).to(device)

    def loss(self, net, x0, t, noise):
        a = self.sqrt_bar[t][:, None, None, None]
        b = self.sqrt_one_minus[t][:, None, None, None]
        with torch.autocast("xla", dtype=torch.bfloat16):
            pred = net(a * x0 + b * noise, t)
        per_sample = (pred.float() - noise).square().mean(dim=(1, 2, 3))
        return (self.weight[t] * per_sample).mean()


def glyphs(rng, n):
    x = np.full((n, 1, 8, 8), -1.0, np.float32)
    for i in range(n):
        r, c = rng.integers(1, 6, 2)
        x[i, 0, r], x[i, 0, :, c] = 1.0, 1.0
    return torch.from_numpy(x)


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    device = torch_xla.device()
    net = UNet().to(device).train()
    diffusion = Diffusion(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    for step in range(STEPS):
        x0 = glyphs(rng, BATCH).to(device)
        t = torch.from_numpy(rng.integers(0, TIMESTEPS, BATCH)).to(device)
        noise = torch.from_numpy(rng.normal(size=(BATCH, 1, 8, 8)).astype(np.float32)).to(device)
        opt.zero_grad()
        loss = diffusion.loss(net, x0, t, noise)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 5 == 4:
            print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
