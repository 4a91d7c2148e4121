"""Long-horizon forecasting with a decomposition transformer (auto-correlation attention)."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SEQ, PRED, CHANNELS = 48, 24, 5
D_MODEL, HEADS = 16, 2


def load_series(length=1400, seed=3):
    rng = np.random.default_rng(seed)
    t = np.arange(length)
    cols = []
    for c in range(CHANNELS):
        p1 = 13 + 6 * np.sin(2 * np.pi * t / rng.uniform(300, 500))
        p2 = rng.uniform(20, 31)
        s = np.sin(np.cumsum(2 * np.pi / p1)) + 0.6 * np.sin(2 * np.pi * t / p2)
        walk = np.cumsum(rng.normal(0, 0.05, length))
        cols.append(s + walk + rng.normal(0, 0.4, length))
    x = np.stack(cols, 1).astype(np.float32)
    split = int(0.8 * length)
    mu, sd = x[:split].mean(0), x[:split].std(0)
    return torch.from_numpy((x - mu) / sd), split


class SeriesDecomp(nn.Module):
    def __init__(self, kernel=13):
        super().__init__()
        self.pad = (kernel - 1) // 2
        self.avg = nn.AvgPool1d(kernel, stride=1)

    def forward(self, x):
        y = x.transpose(1, 2)
        y = self.avg(F.pad(y, (self.pad, self.pad), mode="replicate"))
        trend = y.transpose(1, 2)
        return x - trend, trend


class AutoCorrelation(nn.Module):
    """Period-based dependencies: score every lag, aggregate the best ones."""

    def __init__(self, d_model, heads, factor=1.5):
        super().__init__()
        self.heads, self.factor = heads, factor
        self.q, self.k = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        self.v, self.o = nn.Linear(d_model, d_model), nn.Linear(d_model, d_model)
        lag = torch.arange(SEQ)
        self.register_buffer("lag_index", (lag[None, :] - lag[:, None]) % SEQ, persistent=False)

    def lag_scores(self, q, k):
        shifted = k[..., self.lag_index]                       # B H E lag time
        return (q.unsqueeze(-2) * shifted).mean(-1)            # B H E lag

    def aggregate(self, values, corr):
        top_k = int(self.factor * math.log(SEQ))
        mean_corr = corr.mean(dim=(1, 2))                      # B lag
        delay = torch.topk(mean_corr.mean(0), top_k).indices
        weights = F.softmax(mean_corr[:, delay], dim=-1)
        out = torch.zeros_like(values)
        for i in range(top_k):
            pattern = torch.roll(values, -int(delay[i]), dims=-1)
            out = out + pattern * weights[:, i].view(-1, 1, 1, 1)
        return out

    def forward(self, x):
        B, L, D = x.shape

        def split(t):
            return t.view(B, L, self.heads, D // self.heads).permute(0, 2, 3, 1)

        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        out = self.aggregate(v, self.lag_scores(q, k))
        return self.o(out.permute(0, 3, 1, 2).reshape(B, L, D))


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = AutoCorrelation(D_MODEL, HEADS)
        self.decomp1, self.decomp2 = SeriesDecomp(), SeriesDecomp()
        self.ff = nn.Sequential(nn.Linear(D_MODEL, 32), nn.GELU(), nn.Linear(32, D_MODEL))
        self.drop = nn.Dropout(0.05)

    def forward(self, x):
        x, _ = self.decomp1(x + self.drop(self.attn(x)))
        x, _ = self.decomp2(x + self.drop(self.ff(x)))
        return x


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.decomp = SeriesDecomp()
        self.embed = nn.Linear(CHANNELS, D_MODEL)
        self.layer = EncoderLayer()
        self.seasonal = nn.Linear(D_MODEL, CHANNELS)
        self.to_future = nn.Linear(SEQ, PRED)
        self.trend = nn.Linear(SEQ, PRED)

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        season, trend = self.decomp(x - mean)
        h = self.seasonal(self.layer(self.embed(season)))
        h = self.to_future(h.transpose(1, 2)).transpose(1, 2)
        t = self.trend(trend.transpose(1, 2)).transpose(1, 2)
        return h + t + mean


def windows(series, end, batch, generator):
    start = torch.randint(0, end - SEQ - PRED, (batch,), generator=generator)
    idx = start[:, None] + torch.arange(SEQ + PRED)
    w = series[idx]
    return w[:, :SEQ], w[:, SEQ:]


def main():
    torch.manual_seed(12)
    gen = torch.Generator().manual_seed(12)
    device = xm.xla_device()
    series, split = load_series()

    model = Forecaster().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.98)
    horizon_w = torch.linspace(1.2, 0.8, PRED, device=device).view(1, PRED, 1)

    model.train()
    for it in range(20):
        x, y = windows(series, split, 8, gen)
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        pred = model(x)
        loss = (F.smooth_l1_loss(pred, y, reduction="none") * horizon_w).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        opt.step()
        sched.step()
        xm.mark_step()
        if it % 10 == 9:
            print(f"iter {it + 1:3d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
