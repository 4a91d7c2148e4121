"""Channel-independent patch transformer for load forecasting."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def instance_stats(x, eps=1e-5):
    mean = x.mean(dim=-1, keepdim=True)
    std = torch.sqrt(x.var(dim=-1, keepdim=True, unbiased=False) + eps)
    return mean, std


class PatchEmbed(nn.Module):
    def __init__(self, patch, stride, dim, n_patches):
        super().__init__()
        self.patch, self.stride = patch, stride
        self.proj = nn.Linear(patch, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(n_patches, dim))

    def forward(self, x):
        p = torch.stack([x[:, i:i + self.patch] for i in range(0, x.shape[1] - self.patch + 1, self.stride)], 1)
        return self.proj(p) + self.pos


class Layer(nn.Module):
    def __init__(self, dim, heads, ff):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, ff), nn.GELU(), nn.Linear(ff, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1)
        x = x + self.out((att @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class PatchModel(nn.Module):
    def __init__(self, lookback=32, horizon=8, patch=8, stride=8, dim=16, heads=2, depth=1):
        super().__init__()
        n = (lookback - patch) // stride + 1
        self.embed = PatchEmbed(patch, stride, dim, n)
        self.layers = nn.ModuleList(Layer(dim, heads, 2 * dim) for _ in range(depth))
        self.head = nn.Linear(n * dim, horizon)

    def forward(self, x):
        b, c, l = x.shape
        mean, std = instance_stats(x)
        h = self.embed(((x - mean) / std).reshape(b * c, l))
        for layer in self.layers:
            h = layer(h)
        y = self.head(h.flatten(1)).view(b, c, -1)
        return y * std + mean


def param_groups(model, wd):
    mats = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    return [{"params": mats, "weight_decay": wd}, {"params": rest, "weight_decay": 0.0}]


def windows(rng, b, c, n):
    t = rng.uniform(0, 100, (b, c, 1)) + np.arange(n)
    x = np.sin(2 * np.pi * t / 12) + 0.3 * np.sin(2 * np.pi * t / 5) + 0.1 * rng.normal(size=t.shape)
    return torch.from_numpy(x.astype(np.float32))


def train(steps=5, b=4, c=3, lookback=32, horizon=8):
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    dev = torch_xla.device()
    model = PatchModel(lookback, horizon).to(dev)
    opt = torch.optim.AdamW(param_groups(model, 0.05), lr=1e-3, betas=(0.9, 0.95))
    torch_xla.sync()
    for i in range(steps):
        w = windows(rng, b, c, lookback + horizon).to(dev)
        loss = F.mse_loss(model(w[..., :lookback]), w[..., lookback:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        torch_xla.sync()
        print(i, f"{loss.item():.5f}")


if __name__ == "__main__":
    train()
