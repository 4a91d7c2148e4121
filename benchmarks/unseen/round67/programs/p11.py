"""Autocorrelation forecaster for tide gauge records (hourly water level, several harbours)."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


def harbour_records(n_harbours, hours, rng):
    t = np.arange(hours)
    out = np.zeros((n_harbours, hours), dtype=np.float32)
    periods = (12.42, 12.0, 23.93, 25.82, 6.21)
    for h in range(n_harbours):
        for p in periods:
            amp = rng.gamma(1.5, 0.5)
            out[h] += amp * np.cos(2 * np.pi * t / p + rng.uniform(0, 2 * np.pi))
        surge = np.cumsum(rng.normal(0, 0.08, hours))
        out[h] += surge - np.convolve(surge, np.ones(49) / 49, mode="same")
    return out


class GaugeWindows:
    def __init__(self, series, ctx, horizon, batch, rng):
        self.series, self.ctx, self.horizon, self.batch, self.rng = series, ctx, horizon, batch, rng

    def __call__(self):
        n, hours = self.series.shape
        rows = self.rng.integers(0, n, self.batch)
        starts = self.rng.integers(0, hours - self.ctx - self.horizon, self.batch)
        w = np.stack([self.series[r, s:s + self.ctx + self.horizon] for r, s in zip(rows, starts)])
        mu = w[:, :self.ctx].mean(1, keepdims=True)
        sd = w[:, :self.ctx].std(1, keepdims=True) + 1e-4
        w = (w - mu) / sd
        return torch.from_numpy(w[:, :self.ctx]), torch.from_numpy(w[:, self.ctx:])


class AutoCorrelation(nn.Module):
    def __init__(self, length, factor=1):
        super().__init__()
        self.top_k = int(factor * math.log(length))
        t = torch.arange(length)
        self.register_buffer("circ", (t[None, :] + t[:, None]) % length, persistent=False)

    def correlate(self, q, k):
        # mean over time of q[t + tau] * k[t], for each lag tau
        b, h, d, length = q.shape
        scores = torch.einsum("bhdt,bhds->bhts", k, q) / d
        return scores.gather(-1, self.circ.t().expand(b, h, -1, -1)).mean(2)

    def aggregate(self, values, corr):
        mean_corr = corr.mean(1)
        index = torch.topk(mean_corr.mean(0), self.top_k, dim=-1)[1]
        weights = torch.softmax(mean_corr[:, index], dim=-1)
        agg = torch.zeros_like(values)
        for i in range(self.top_k):
            pattern = torch.roll(values, -int(index[i]), -1)
            agg = agg + pattern * weights[:, i].view(-1, 1, 1, 1)
        return agg

    def forward(self, q, k, v):
        return self.aggregate(v, self.correlate(q, k))


class MovingAverage(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.pool = nn.AvgPool1d(width, stride=1, padding=width // 2, count_include_pad=False)

    def forward(self, x):
        trend = self.pool(x.transpose(1, 2)).transpose(1, 2)
        return x - trend, trend


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, length):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.attn = AutoCorrelation(length)
        self.decomp1, self.decomp2 = MovingAverage(13), MovingAverage(13)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, -1).permute(0, 2, 3, 1) for z in self.qkv(x).chunk(3, -1))
        y = self.attn(q, k, v).permute(0, 3, 1, 2).reshape(b, t, c)
        x, _ = self.decomp1(x + self.proj(y))
        x, _ = self.decomp2(x + self.ff(x))
        return x


class TideFormer(nn.Module):
    def __init__(self, ctx, horizon, dim=32, heads=4):
        super().__init__()
        self.embed = nn.Conv1d(1, dim, 3, padding=1, padding_mode="circular")
        self.layer = EncoderLayer(dim, heads, ctx)
        self.decomp = MovingAverage(13)
        self.season = nn.Linear(ctx, horizon)
        self.trend = nn.Linear(ctx, horizon)
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        seasonal, trend = self.decomp(x.unsqueeze(-1))
        h = self.layer(self.embed(seasonal.transpose(1, 2)).transpose(1, 2))
        s = self.out(self.season(h.transpose(1, 2)).transpose(1, 2)).squeeze(-1)
        return s + self.trend(trend.squeeze(-1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=20)
    ap.add_argument("--ctx", type=int, default=60)
    ap.add_argument("--horizon", type=int, default=24)
    ap.add_argument("--batch", type=int, default=4)
    args = ap.parse_args()

    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    device = torch_xla.device()
    draw = GaugeWindows(harbour_records(9, 3000, rng), args.ctx, args.horizon, args.batch, rng)
    model = TideFormer(args.ctx, args.horizon).to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)

    running = []
    for step in range(args.steps):
        past, future = (z.to(device) for z in draw())
        loss = nn.functional.l1_loss(model(past), future)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        xm.mark_step()
        running.append(loss.detach())
        if (step + 1) % 5 == 0:
            print(f"step {step + 1:3d}  mae {np.mean([l.item() for l in running]):.4f}")
            running.clear()


if __name__ == "__main__":
    main()
