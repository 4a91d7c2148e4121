"""Patch transformer for electricity-load forecasting (univariate channels, local attention)."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CONTEXT, PATCH, HORIZON = 96, 8, 24
DIM, HEADS, RADIUS = 16, 2, 3


class InstanceNorm(nn.Module):
    """Reversible instance normalisation; statistics of the context are kept for the way back."""

    def __init__(self, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(1))
        self.shift = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        var, mu = torch.var_mean(x, dim=1, keepdim=True)
        stats = (mu.detach(), (var + self.eps).sqrt().detach())
        return (x - stats[0]) / stats[1] * self.gain + self.shift, stats

    def inverse(self, y, stats):
        mu, sigma = stats
        return (y - self.shift) / (self.gain + self.eps ** 2) * sigma + mu


def local_mask(n, radius, device):
    ones = torch.ones(n, n, device=device)
    return (torch.tril(ones, radius) - torch.tril(ones, -radius)).bool()


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.ln2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        att = att.masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = InstanceNorm()
        self.embed = nn.Linear(PATCH, DIM)
        self.pos = nn.Parameter(0.02 * torch.randn(CONTEXT // PATCH, DIM))
        self.blocks = nn.ModuleList([Block(DIM, HEADS) for _ in range(2)])
        self.head = nn.Linear(CONTEXT // PATCH * DIM, HORIZON)

    def forward(self, x):
        z, stats = self.norm(x)
        h = self.embed(z.view(x.shape[0], -1, PATCH)) + self.pos
        mask = local_mask(h.shape[1], RADIUS, x.device)
        for blk in self.blocks:
            h = blk(h, mask)
        return self.norm.inverse(self.head(h.flatten(1)), stats)


def load_series(rng, n_meters=20, length=1200):
    t = np.arange(length)
    daily = np.sin(2 * np.pi * (t[None] / 24 + rng.uniform(size=(n_meters, 1))))
    weekly = 0.4 * np.sin(2 * np.pi * t[None] / 168)
    level = rng.lognormal(1.5, 0.5, size=(n_meters, 1))
    return (level * (1.5 + daily + weekly) + 0.2 * rng.standard_normal((n_meters, length))).astype(np.float32)


def windows(rng, series, bs):
    rows = rng.integers(0, series.shape[0], bs)
    starts = rng.integers(0, series.shape[1] - CONTEXT - HORIZON, bs)
    chunk = np.stack([series[r, s:s + CONTEXT + HORIZON] for r, s in zip(rows, starts)])
    chunk = torch.from_numpy(chunk)
    return chunk[:, :CONTEXT].contiguous(), chunk[:, CONTEXT:].contiguous()


def main(steps=6, bs=8):
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    device = torch_xla.device()
    series = load_series(rng)
    model = Forecaster().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    for step in range(steps):
        past, future = windows(rng, series, bs)
        past, future = past.to(device), future.to(device)
        pred = model(past)
        loss = F.l1_loss(pred, future)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, round(loss.item(), 5))


if __name__ == "__main__":
    main()
