"""Long-horizon forecasting with a patched transformer on hourly load curves."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def load_series(n_steps=600, n_series=3, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(n_steps)[:, None]
    phase = rng.uniform(0, 2 * np.pi, n_series)[None]
    daily = np.sin(2 * np.pi * t / 24 + phase)
    weekly = 0.5 * np.sin(2 * np.pi * t / 168 + phase)
    level = rng.uniform(5, 20, n_series)[None]
    return (level + daily + weekly + 0.1 * rng.standard_normal((n_steps, n_series))).astype(np.float32)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attn = torch.softmax(q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5, dim=-1)
        x = x + self.proj((attn @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.norm2(x))


class PatchForecaster(nn.Module):
    def __init__(self, context=48, horizon=24, patch=8, dim=16, heads=2, eps=1e-5):
        super().__init__()
        self.patch = patch
        self.eps = eps
        n_patches = context // patch
        self.embed = nn.Linear(patch, dim)
        self.position = nn.Parameter(torch.randn(1, n_patches, dim) * 0.02)
        self.block = Block(dim, heads)
        self.head = nn.Linear(n_patches * dim, horizon)

    def forward(self, x):
        b, t, c = x.shape
        mean = x.mean(dim=1, keepdim=True)
        std = x.std(dim=1, keepdim=True) + self.eps
        h = ((x - mean) / std).transpose(1, 2).reshape(b * c, t // self.patch, self.patch)
        h = self.block(self.embed(h) + self.position)
        y = self.head(h.flatten(1)).view(b, c, -1).transpose(1, 2)
        return y * std + mean


class Windows:
    def __init__(self, series, context, horizon):
        self.series = torch.from_numpy(series)
        self.context, self.horizon = context, horizon

    def sample(self, n):
        last = len(self.series) - self.context - self.horizon
        starts = torch.randint(0, last, (n,)).tolist()
        x = torch.stack([self.series[s:s + self.context] for s in starts])
        y = torch.stack([self.series[s + self.context:s + self.context + self.horizon] for s in starts])
        return x, y


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--weight-decay", type=float, default=1e-2)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch_xla.device()
    windows = Windows(load_series(), context=48, horizon=24)
    model = PatchForecaster().to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=args.weight_decay)

    for step in range(args.steps):
        x, y = (a.to(device) for a in windows.sample(args.batch_size))
        optimizer.zero_grad()
        loss = F.l1_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
