"""Multi-horizon load forecasting: gated recurrent encoder/decoder with scheduled sampling."""
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CONTEXT = 24
HORIZON = 5
BATCH = 16
STEPS = 18
QUANTILES = (0.1, 0.5, 0.9)


def synthetic_load(n_series, length, rng):
    t = np.arange(length)
    out = []
    for _ in range(n_series):
        daily = rng.uniform(0.5, 1.5) * np.sin(2 * np.pi * t / 24 + rng.uniform(0, 6))
        weekly = rng.uniform(0.1, 0.5) * np.sin(2 * np.pi * t / 168 + rng.uniform(0, 6))
        trend = rng.uniform(-1, 1) * t / length
        out.append(daily + weekly + trend + rng.normal(0, 0.15, length))
    return np.stack(out).astype(np.float32)


class Windows(torch.utils.data.IterableDataset):
    """Endless random windows, standardised by the context."""

    def __init__(self, series, seed):
        self.series = series
        self.seed = seed

    def __iter__(self):
        rng = np.random.default_rng(self.seed)
        n, length = self.series.shape
        span = CONTEXT + HORIZON
        while True:
            s = rng.integers(0, n)
            start = rng.integers(0, length - span)
            w = self.series[s, start : start + span]
            mu, sd = w[:CONTEXT].mean(), w[:CONTEXT].std() + 1e-3
            w = (w - mu) / sd
            phase = 2 * np.pi * ((start + np.arange(span)) % 24) / 24
            cal = np.stack([np.sin(phase), np.cos(phase)], -1).astype(np.float32)
            yield w.astype(np.float32), cal


class Cell(nn.Module):
    """Minimal gated unit."""

    def __init__(self, d_in, d_hid):
        super().__init__()
        self.gate = nn.Linear(d_in + d_hid, d_hid)
        self.cand = nn.Linear(d_in + d_hid, d_hid)

    def forward(self, x, h):
        xh = torch.cat([x, h], -1)
        f = torch.sigmoid(self.gate(xh))
        return (1 - f) * h + f * torch.tanh(self.cand(xh))


class Seq2Seq(nn.Module):
    def __init__(self, d_hid=24):
        super().__init__()
        self.d_hid = d_hid
        self.conv = nn.Conv1d(3, d_hid, kernel_size=8, stride=8)
        self.encoder = Cell(d_hid, d_hid)
        self.decoder = Cell(3, d_hid)
        self.head = nn.Linear(d_hid, len(QUANTILES))

    def encode(self, past, cal):
        x = torch.cat([past.unsqueeze(-1), cal], -1).transpose(1, 2)
        patches = F.gelu(self.conv(x)).transpose(1, 2)
        h = past.new_zeros(past.size(0), self.d_hid)
        for i in range(patches.size(1)):
            h = self.encoder(patches[:, i], h)
        return h

    def forward(self, past, cal_past, cal_future, target=None, teacher_forcing=0.0):
        h = self.encode(past, cal_past)
        prev = past[:, -1]
        outs = []
        for t in range(HORIZON):
            h = self.decoder(torch.cat([prev.unsqueeze(-1), cal_future[:, t]], -1), h)
            q = self.head(h)
            outs.append(q)
            if target is not None and random.random() < teacher_forcing:
                prev = target[:, t]
            else:
                prev = q[:, 1].detach()
        return torch.stack(outs, 1)


def pinball(pred, target, levels):
    diff = target.unsqueeze(-1) - pred
    return torch.maximum(levels * diff, (levels - 1) * diff).mean()


def inverse_sigmoid(step, k):
    return k / (k + math.exp(step / k))


def main(seed=16):
    random.seed(seed)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    device = torch_xla.device()

    series = synthetic_load(12, 600, rng)
    loader = torch.utils.data.DataLoader(Windows(series[:, :480], seed), batch_size=BATCH)
    val_w, val_cal = next(iter(torch.utils.data.DataLoader(Windows(series[:, 480:], 1), batch_size=64)))
    val_w, val_cal = val_w.to(device), val_cal.to(device)

    model = Seq2Seq().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    levels = torch.tensor(QUANTILES, device=device)
    torch_xla.sync()

    running = torch.zeros((), device=device)
    for step, (w, cal) in zip(range(1, STEPS + 1), loader):
        w, cal = w.to(device), cal.to(device)
        past, future = w[:, :CONTEXT], w[:, CONTEXT:]
        ratio = inverse_sigmoid(step, k=6.0)
        pred = model(past, cal[:, :CONTEXT], cal[:, CONTEXT:], future, teacher_forcing=ratio)
        loss = pinball(pred, future, levels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running = 0.9 * running + 0.1 * loss.detach()
        torch_xla.sync()

        if step % 6 == 0:
            with torch.no_grad():
                out = model(val_w[:, :CONTEXT], val_cal[:, :CONTEXT], val_cal[:, CONTEXT:])
                val = pinball(out, val_w[:, CONTEXT:], levels)
            print(f"step {step} running {running.item():.4f} val {val.item():.4f} tf {ratio:.2f}")


if __name__ == "__main__":
    main()
