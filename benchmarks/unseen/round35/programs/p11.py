"""Streaming load forecaster.

A small Transformer-XL style model reads a multivariate hourly series chunk by
chunk, keeps the hidden states of the previous chunk as memory, and predicts the
next value of every feeder. Calendar information enters as Fourier features of
the absolute hour.
"""
import argparse
import math
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

PERIODS = (24.0, 168.0, 8766.0)


def synth_feeders(hours, feeders, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)[:, None]
    phase = rng.uniform(0, 2 * math.pi, size=(2, feeders))
    day = np.sin(2 * math.pi * t / 24.0 + phase[0])
    week = 0.5 * np.sin(2 * math.pi * t / 168.0 + phase[1])
    drift = np.cumsum(rng.normal(0, 0.02, size=(hours, feeders)), axis=0)
    noise = rng.normal(0, 0.1, size=(hours, feeders))
    x = day + week + drift + noise
    return ((x - x.mean(0)) / x.std(0)).astype(np.float32)


class CalendarFeatures(nn.Module):
    def __init__(self, dim, periods=PERIODS, harmonics=2):
        super().__init__()
        freqs = [2 * math.pi * h / p for p in periods for h in range(1, harmonics + 1)]
        self.register_buffer("freqs", torch.tensor(freqs))
        self.proj = nn.Linear(2 * len(freqs), dim)

    def forward(self, start, length):
        hours = torch.arange(start, start + length, device=self.freqs.device)
        angles = hours.to(self.freqs.dtype)[:, None] * self.freqs
        return self.proj(torch.cat([angles.sin(), angles.cos()], dim=-1))


class MemoryAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, mem):
        b, t, d = x.shape
        ctx = torch.cat([mem, x], dim=1)
        q = self.q(x).view(b, t, self.heads, -1).transpose(1, 2)
        k, v = self.kv(ctx).view(b, ctx.shape[1], 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        causal = torch.ones(t, ctx.shape[1], dtype=torch.bool, device=x.device)
        causal = causal.tril(diagonal=ctx.shape[1] - t)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=causal)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = MemoryAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, mem):
        x = x + self.attn(self.n1(x), self.n1(mem))
        return x + self.ff(self.n2(x))


class Forecaster(nn.Module):
    def __init__(self, dim=32, heads=4, layers=1):
        super().__init__()
        self.dim = dim
        self.inp = nn.Linear(1, dim)
        self.calendar = CalendarFeatures(dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.head = nn.Linear(dim, 2)

    def init_memory(self, batch, mem_len, device):
        return [torch.zeros(batch, mem_len, self.dim, device=device) for _ in self.layers]

    def forward(self, x, start, memory):
        h = self.inp(x.unsqueeze(-1)) + self.calendar(start, x.shape[1])
        new_memory = []
        for layer, mem in zip(self.layers, memory):
            new_memory.append(h.detach())
            h = layer(h, mem)
        mean, log_scale = self.head(h).unbind(-1)
        return mean, log_scale.clamp(-4.0, 2.0), new_memory


def laplace_nll(mean, log_scale, target):
    return (log_scale + (target - mean).abs() * torch.exp(-log_scale)).mean()


def run_stream(model, series, first, last, chunk, memory, device, optimizer=None, scheduler=None):
    running = torch.zeros((), device=device)
    seen = 0
    for start in range(first, last - chunk, chunk):
        window = torch.from_numpy(series[start:start + chunk + 1].T.copy()).to(device)
        x, y = window[:, :-1], window[:, 1:]
        with torch.set_grad_enabled(optimizer is not None):
            mean, log_scale, memory = model(x, start, memory)
            loss = laplace_nll(mean, log_scale, y)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
        running += loss.detach()
        torch_xla.sync()
        seen += 1
        if seen % 10 == 0:
            print(f"hour {start + chunk:5d}  mean nll {running.item() / seen:.4f}")
    return running.item() / max(seen, 1), memory


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--hours", type=int, default=624)
    ap.add_argument("--val-hours", type=int, default=120)
    ap.add_argument("--feeders", type=int, default=12)
    ap.add_argument("--chunk", type=int, default=24)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()

    torch.manual_seed(7)
    device = torch_xla.device()
    series = synth_feeders(args.hours, args.feeders, seed=7)
    model = Forecaster().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)

    split = args.hours - args.val_hours
    memory = model.init_memory(args.feeders, args.chunk, device)
    train_nll, memory = run_stream(model, series, 0, split, args.chunk, memory, device, optimizer, scheduler)
    model.eval()
    val_nll, _ = run_stream(model, series, split, args.hours, args.chunk, memory, device)
    print(f"train {train_nll:.4f}  val {val_nll:.4f}")


if __name__ == "__main__":
    main()
