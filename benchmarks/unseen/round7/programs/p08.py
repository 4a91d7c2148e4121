"""Rolling-origin forecasting of hourly load with a small attention model."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CONTEXT, HORIZON, SERIES = 24, 6, 12


def make_load(hours, seed):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(hours).float()
    day = torch.sin(2 * math.pi * t / 24)
    week = 0.4 * torch.sin(2 * math.pi * t / 168)
    scale = 0.5 + torch.rand(SERIES, 1, generator=g)
    return scale * (day + week) + 0.1 * torch.randn(SERIES, hours, generator=g)


class RollingWindows:
    """Walks the origin through the history, one window of all the series at a time."""

    def __init__(self, load, start, stop, stride):
        self.load, self.start, self.stop, self.stride = load, start, stop, stride

    def __iter__(self):
        for origin in range(self.start, self.stop, self.stride):
            past = self.load[:, origin - CONTEXT:origin]
            future = self.load[:, origin:origin + HORIZON]
            yield origin, past, future


class CalendarEncoding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.proj = nn.Linear(4, dim)
        self.periods = (24.0, 168.0)

    def forward(self, first, n, device):
        hour = torch.arange(first, first + n, device=device).float()
        feats = []
        for p in self.periods:
            feats += [torch.sin(2 * math.pi * hour / p), torch.cos(2 * math.pi * hour / p)]
        return self.proj(torch.stack(feats, dim=-1))


class Forecaster(nn.Module):
    def __init__(self, dim=24, heads=2):
        super().__init__()
        self.value = nn.Linear(1, dim)
        self.calendar = CalendarEncoding(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.head = nn.Linear(dim, 2)

    def forward(self, past, origin):
        mean = past.mean(1, keepdim=True)
        std = past.std(1, keepdim=True) + 1e-3
        x = (past - mean) / std
        keys = self.value(x.unsqueeze(-1)) + self.calendar(origin - CONTEXT, CONTEXT, past.device)
        queries = self.calendar(origin, HORIZON, past.device).expand(past.size(0), -1, -1)
        h, _ = self.attn(queries, keys, keys, need_weights=False)
        h = self.norm(queries + h)
        loc, raw = self.head(h + self.ff(h)).unbind(-1)
        return loc * std + mean, F.softplus(raw) * std + 1e-3


def gaussian_nll(loc, scale, y):
    return (0.5 * ((y - loc) / scale).square() + scale.log()).mean()


class Backtest:
    def __init__(self, lr=2e-3):
        self.device = torch_xla.device()
        self.model = Forecaster().to(self.device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.log = []

    def update(self, origin, past, future):
        past, future = past.to(self.device), future.to(self.device)
        self.opt.zero_grad()
        with torch_xla.step():
            loc, scale = self.model(past, origin)
            loss = gaussian_nll(loc, scale, future)
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
            self.opt.step()
        return loss.detach()

    def run(self, windows):
        for i, (origin, past, future) in enumerate(windows):
            loss = self.update(origin, past, future)
            if i % 9 == 8:
                self.log.append(loss.item())
                print(f'origin {origin} nll {self.log[-1]:.4f}')


if __name__ == '__main__':
    torch.manual_seed(1)
    load = make_load(24 * 21, 2)
    backtest = Backtest()
    torch_xla.sync()
    backtest.run(RollingWindows(load, start=48, stop=48 + 36 * 6, stride=6))
