"""PatchTST-like forecaster on hourly load curves (channel-independent, instance-normalised)."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CONTEXT, HORIZON, PATCH, CHANNELS = 48, 12, 8, 3
DIM, HEADS, DEPTH = 24, 3, 2


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        qkv = self.qkv(x).reshape(b, n, 3, self.heads, d // self.heads)
        q, k, v = qkv.unbind(2)
        att = torch.einsum("bihd,bjhd->bhij", q, k) * self.scale
        att = att.softmax(-1)
        out = torch.einsum("bhij,bjhd->bihd", att, v)
        return self.proj(out.reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchForecaster(nn.Module):
    def __init__(self):
        super().__init__()
        n = CONTEXT // PATCH
        self.embed = nn.Linear(PATCH, DIM)
        self.pos = nn.Parameter(0.02 * torch.randn(n, DIM))
        self.blocks = nn.ModuleList([Block(DIM, HEADS) for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(n * DIM, HORIZON)
        self.gain = nn.Parameter(torch.ones(CHANNELS))
        self.shift = nn.Parameter(torch.zeros(CHANNELS))

    def forward(self, x):
        # x: (batch, time, channel)
        mean = x.mean(1, keepdim=True).detach()
        std = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5).detach()
        x = (x - mean) / std * self.gain + self.shift
        b, t, c = x.shape
        z = self.embed(x.reshape(b, t // PATCH, PATCH, c).permute(0, 3, 1, 2)) + self.pos
        z = z.reshape(b * c, -1, DIM)
        for blk in self.blocks:
            z = blk(z)
        y = self.head(self.norm(z).flatten(1)).reshape(b, c, HORIZON).transpose(1, 2)
        return (y - self.shift) / (self.gain + 1e-5) * std + mean


def windows(steps, batch, seed=0):
    g = np.random.default_rng(seed)
    t = np.arange(3000)
    load = np.stack([np.sin(2 * np.pi * t / p) + 0.3 * np.sin(2 * np.pi * t / (7 * p)) for p in (24, 12, 31)], 1)
    load = load * np.array([1.0, 5.0, 0.2]) + np.array([3.0, 20.0, 0.5]) + 0.05 * g.normal(size=(len(t), CHANNELS))
    for _ in range(steps):
        lo = g.integers(0, len(t) - CONTEXT - HORIZON, size=batch)
        w = np.stack([load[i:i + CONTEXT + HORIZON] for i in lo]).astype(np.float32)
        valid = (g.random((batch, HORIZON, CHANNELS)) < 0.9).astype(np.float32)
        yield torch.from_numpy(w[:, :CONTEXT]), torch.from_numpy(w[:, CONTEXT:]), torch.from_numpy(valid)


def masked_huber(pred, target, valid, delta=1.0):
    err = (pred - target).abs()
    quad = err.clamp(max=delta)
    loss = 0.5 * quad ** 2 + delta * (err - quad)
    return (loss * valid).sum() / valid.sum().clamp(min=1)


def main(model=None, steps=4):
    torch.manual_seed(0)
    device = torch_xla.device()
    xm.set_rng_state(0, device)
    model = (model or PatchForecaster()).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    torch_xla.sync()
    losses = []
    for x, y, valid in windows(steps, 8):
        x, y, valid = x.to(device), y.to(device), valid.to(device)
        opt.zero_grad()
        loss = masked_huber(model(x), y, valid)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        torch_xla.sync()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    print(main())
