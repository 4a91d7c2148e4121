"""Hourly load forecasting over one long series, chunk by chunk with a carried memory."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

PERIODS = (24.0, 168.0, 8766.0)


def load_curve(hours, sites, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)[:, None]
    phase = rng.uniform(0, 6, size=(1, sites))
    y = (np.sin(2 * np.pi * t / 24 + phase) + 0.5 * np.sin(2 * np.pi * t / 168 + phase)
         + 0.1 * rng.normal(size=(hours, sites)))
    return torch.tensor(y.T, dtype=torch.float32)


class CalendarEncoding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("freq", 2 * math.pi / torch.tensor(PERIODS))
        self.proj = nn.Linear(2 * len(PERIODS), dim)

    def forward(self, hours):
        angle = hours.float()[:, None] * self.freq
        return self.proj(torch.cat([angle.sin(), angle.cos()], dim=-1))


class MemoryBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, memory, mask):
        context = torch.cat([memory, x], dim=1)
        a, _ = self.attn(self.ln1(x), self.ln1(context), self.ln1(context),
                         attn_mask=mask, need_weights=False)
        x = x + a
        return x + self.mlp(self.ln2(x))


class Forecaster(nn.Module):
    def __init__(self, dim=32, heads=4, depth=2, mem_len=12):
        super().__init__()
        self.mem_len = mem_len
        self.value = nn.Linear(1, dim)
        self.calendar = CalendarEncoding(dim)
        self.blocks = nn.ModuleList(MemoryBlock(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, 2)

    def forward(self, x, hours, memories):
        n = x.size(1)
        mask = torch.ones(n, n + self.mem_len, dtype=torch.bool, device=x.device).triu(self.mem_len + 1)
        h = self.value(x.unsqueeze(-1)) + self.calendar(hours)
        fresh = []
        for block, mem in zip(self.blocks, memories):
            fresh.append(torch.cat([mem, h], 1)[:, -self.mem_len:].detach())
            h = block(h, mem, mask)
        mean, log_scale = self.head(h).unbind(-1)
        return mean, log_scale, fresh


def gaussian_nll(mean, log_scale, target):
    return (log_scale + 0.5 * ((target - mean) * torch.exp(-log_scale)) ** 2).mean()


def main(chunk=24, sites=8, steps=14):
    torch.manual_seed(3)
    device = xm.xla_device()
    series = load_curve(chunk * steps + 1, sites)
    model = Forecaster().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    memories = [torch.zeros(sites, model.mem_len, 32).to(device) for _ in model.blocks]
    ema = None
    for step in range(steps):
        start = step * chunk
        window = series[:, start:start + chunk + 1].to(device)
        hours = torch.arange(start, start + chunk, device=device)
        mean, log_scale, memories = model(window[:, :-1], hours, memories)
        loss = gaussian_nll(mean, log_scale, window[:, 1:])
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        if step % 5 == 4:
            value = loss.item()
            ema = value if ema is None else 0.7 * ema + 0.3 * value
            print(f"hour {start:4d}  nll {value:+.4f}  smoothed {ema:+.4f}")


if __name__ == "__main__":
    main()
