"""Small class-conditional diffusion model on blobs, with self-conditioning, an averaged copy and DDIM previews."""
import copy
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

STEPS = 70
BATCH = 8
SIZE = 12
CLASSES = 3
T = 100
EMA_EVERY = 5


def blobs(g, n):
    y = torch.randint(0, CLASSES, (n,), generator=g)
    centre = torch.rand(n, 2, generator=g) * 4 + 4
    grid = torch.arange(SIZE).float()
    dy = (grid[None, :, None] - centre[:, 0, None, None]) ** 2
    dx = (grid[None, None, :] - centre[:, 1, None, None]) ** 2
    width = (y.float() + 1.0)[:, None, None]
    return (torch.exp(-(dx + dy) / (2 * width ** 2)) * 2 - 1).unsqueeze(1), y


def alpha_bar_table():
    s = torch.arange(T + 1) / T
    f = torch.cos((s + 0.008) / 1.008 * math.pi / 2) ** 2
    return (f / f[0]).clamp(1e-4, 0.9999)


class Denoiser(nn.Module):
    def __init__(self, ch=12, dim=24):
        super().__init__()
        self.register_buffer("freq", torch.exp(-torch.arange(dim // 2) * math.log(1000.0) / (dim // 2)))
        self.label = nn.Embedding(CLASSES + 1, dim)
        self.time = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.inp = nn.Conv2d(2, ch, 3, padding=1)
        self.down = nn.Conv2d(ch, ch, 3, stride=2, padding=1)
        self.mod = nn.Linear(dim, 2 * ch)
        self.mid = nn.Conv2d(ch, ch, 3, padding=1)
        self.up = nn.ConvTranspose2d(ch, ch, 2, stride=2)
        self.out = nn.Conv2d(2 * ch, 1, 3, padding=1)

    def forward(self, x, t, y, guess):
        ang = t.float()[:, None] * self.freq
        c = self.time(torch.cat([ang.sin(), ang.cos()], dim=1) + self.label(y))
        a = F.silu(self.inp(torch.cat([x, guess], dim=1)))
        scale, shift = self.mod(F.silu(c))[:, :, None, None].chunk(2, dim=1)
        b = F.silu(self.down(a)) * (1 + scale) + shift
        b = b + self.mid(F.silu(b))
        return self.out(torch.cat([self.up(b), a], dim=1))


class Trainer:
    def __init__(self, device):
        self.device = device
        self.net = Denoiser().to(device)
        self.ema = copy.deepcopy(self.net).requires_grad_(False).eval()
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=2e-3, betas=(0.9, 0.99))
        self.abar = alpha_bar_table().to(device)

    def loss(self, x0, y):
        n = x0.shape[0]
        t = torch.randint(1, T + 1, (n,), device=self.device)
        ab = self.abar[t][:, None, None, None]
        xt = ab.sqrt() * x0 + (1 - ab).sqrt() * torch.randn_like(x0)
        drop = torch.rand(n, device=self.device) < 0.1
        y = torch.where(drop, torch.full_like(y, CLASSES), y)
        guess = torch.zeros_like(x0)
        if random.random() < 0.5:
            with torch.no_grad():
                guess = self.net(xt, t, y, guess)
        pred = self.net(xt, t, y, guess)
        weight = (ab / (1 - ab)).clamp(max=5.0)
        return (weight * (pred - x0) ** 2).mean()

    def train_step(self, x0, y):
        self.opt.zero_grad(set_to_none=True)
        loss = self.loss(x0, y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.opt.step()
        return loss.detach()

    @torch.no_grad()
    def update_ema(self, decay=0.9):
        for p, q in zip(self.ema.parameters(), self.net.parameters()):
            p.lerp_(q, 1 - decay)

    @torch.no_grad()
    def preview(self, n=6, stride=10):
        y = (torch.arange(n) % CLASSES).to(self.device)
        x = torch.randn(n, 1, SIZE, SIZE, device=self.device)
        guess = torch.zeros_like(x)
        for t in range(T, 0, -stride):
            now = torch.full((n,), t, dtype=torch.long).to(self.device)
            ab, prev = (self.abar[i][:, None, None, None] for i in (now, now - stride))
            guess = self.ema(x, now, y, guess).clamp(-1, 1)
            eps = (x - ab.sqrt() * guess) / (1 - ab).sqrt()
            x = prev.sqrt() * guess + (1 - prev).sqrt() * eps
            torch_xla.sync()
        return x.cpu()


def main():
    random.seed(2)
    torch.manual_seed(2)
    device = torch_xla.device()
    trainer = Trainer(device)
    g = torch.Generator().manual_seed(2)
    for step in range(1, STEPS + 1):
        x0, y = blobs(g, BATCH)
        loss = trainer.train_step(x0.to(device), y.to(device))
        if step % EMA_EVERY == 0:
            trainer.update_ema()
        torch_xla.sync()
        if step % 14 == 0:
            sample = trainer.preview()
            print(f"step {step:3d} loss {loss.item():.4f} preview mean {sample.mean():.3f} std {sample.std():.3f}")


if __name__ == "__main__":
    main()
