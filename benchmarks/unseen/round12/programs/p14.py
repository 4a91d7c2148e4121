"""Online load forecasting: a small causal transformer walks along an hourly
series window by window and is updated on every window."""
import math
from collections import deque

import torch
import torch.nn as nn
import torch_xla

WINDOW, HORIZON, STREAMS = 32, 4, 8
DAY, WEEK = 24, 168


def synth_load(hours, streams, seed=5):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(hours, dtype=torch.float32)
    amp = 0.5 + torch.rand(streams, 1, generator=g)
    day = torch.sin(2 * math.pi * t / DAY + torch.rand(streams, 1, generator=g) * 6)
    week = 0.4 * torch.sin(2 * math.pi * t / WEEK)
    return amp * day + week + 0.1 * torch.randn(streams, hours, generator=g)


class CalendarEncoding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.proj = nn.Linear(4, dim)

    def forward(self, hour):
        hour = hour.float()
        parts = [f(2 * math.pi * hour / p) for p in (DAY, WEEK) for f in (torch.sin, torch.cos)]
        return self.proj(torch.stack(parts, dim=-1))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, mask):
        b, l, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, l, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2)) / math.sqrt(d // self.heads) + mask
        x = x + self.out((att.softmax(-1) @ v).transpose(1, 2).reshape(b, l, d))
        return x + self.ff(self.n2(x))


class Forecaster(nn.Module):
    def __init__(self, dim=24, heads=3, depth=2):
        super().__init__()
        self.value = nn.Linear(1, dim)
        self.calendar = CalendarEncoding(dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, HORIZON)
        self.register_buffer("mask", torch.full((WINDOW, WINDOW), -1e4).triu(1))

    def forward(self, values, start):
        hour = torch.arange(start, start + WINDOW, device=values.device)
        x = self.value(values.unsqueeze(-1)) + self.calendar(hour)
        for blk in self.blocks:
            x = blk(x, self.mask)
        return self.head(x)


class SpikeGuard:
    """Damps the update when a window's loss is far above its recent level."""

    def __init__(self, horizon=200, tolerance=1.5):
        self.recent = deque(maxlen=horizon)
        self.tolerance = tolerance

    def __call__(self, loss):
        self.recent.append(loss.detach())
        level = torch.stack(list(self.recent)).mean()
        return loss * (self.tolerance * level / loss.detach()).clamp(max=1.0), level


def windows(series, device):
    for start in range(0, series.shape[1] - WINDOW - HORIZON, WINDOW // 2):
        chunk = series[:, start:start + WINDOW + HORIZON]
        target = chunk[:, 1:].unfold(1, HORIZON, 1)[:, :WINDOW]
        yield start, chunk[:, :WINDOW].to(device), target.contiguous().to(device)


def main():
    torch.manual_seed(14)
    device = torch_xla.device()
    model = Forecaster().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    guard = SpikeGuard()
    series = synth_load(16 * 11 + WINDOW + HORIZON + 1, STREAMS)
    torch_xla.sync()

    for i, (start, values, target) in enumerate(windows(series, device)):
        optimizer.zero_grad()
        loss, level = guard(nn.functional.smooth_l1_loss(model(values, start), target))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch_xla.sync()
        if i % 4 == 3:
            print(f"hour {start:4d}  loss {loss.item():.4f}  level {level.item():.4f}")


if __name__ == "__main__":
    main()
