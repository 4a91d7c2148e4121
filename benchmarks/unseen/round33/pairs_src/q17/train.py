"""Load forecasting for the next hours: conv encoder, GRU-cell decoder, quantile output."""
import math
import random

import numpy as np
import torch
from torch import nn
import torch_xla as xla

QUANTILES = (0.1, 0.5, 0.9)
HISTORY, HORIZON, BATCH = 24, 4, 8


class Encoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.convs = nn.ModuleList([
            nn.Conv1d(3 if i == 0 else hidden, hidden, 2, dilation=2 ** i) for i in range(3)
        ])
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x):
        x = x.transpose(1, 2)
        for conv in self.convs:
            pad = conv.dilation[0]
            x = torch.relu(conv(nn.functional.pad(x, (pad, 0))))
        return self.norm(x[:, :, -1])


class Decoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.cell = nn.GRUCell(3, hidden)
        self.out = nn.Linear(hidden, len(QUANTILES))

    def forward(self, h, last, calendar, target=None, teacher=0.0):
        y, preds = last, []
        for k in range(HORIZON):
            h = self.cell(torch.cat([y, calendar[:, k]], dim=-1), h)
            q = self.out(h)
            preds.append(q)
            if target is not None and random.random() < teacher:
                y = target[:, k:k + 1]
            else:
                y = q[:, 1:2]
        return torch.stack(preds, dim=1)


class Forecaster(nn.Module):
    def __init__(self, hidden=12):
        super().__init__()
        self.encoder = Encoder(hidden)
        self.decoder = Decoder(hidden)

    def forward(self, past, calendar, target=None, teacher=0.0):
        return self.decoder(self.encoder(past), past[:, -1, :1], calendar, target, teacher)


def pinball(pred, target):
    err = target.unsqueeze(-1) - pred
    q = torch.tensor(QUANTILES, device=pred.device)
    return torch.maximum(q * err, (q - 1) * err).mean()


def teacher_ratio(step, k=6.0):
    return k / (k + math.exp(step / k))


def make_series(hours=24 * 30):
    rng = np.random.default_rng(0)
    t = np.arange(hours)
    load = 1 + 0.4 * np.sin(2 * np.pi * t / 24) + 0.1 * rng.normal(size=hours)
    cal = np.stack([np.sin(2 * np.pi * t / 24), np.cos(2 * np.pi * t / 168)], axis=1)
    return load.astype(np.float32), cal.astype(np.float32)


def batches(steps):
    load, cal = make_series()
    rng = np.random.default_rng(1)
    for _ in range(steps):
        lo = rng.integers(0, len(load) - HISTORY - HORIZON, BATCH)
        past = np.stack([np.c_[load[i:i + HISTORY], cal[i:i + HISTORY]] for i in lo])
        i1 = lo + HISTORY
        fut = np.stack([cal[i:i + HORIZON] for i in i1])
        y = np.stack([load[i:i + HORIZON] for i in i1])
        yield torch.from_numpy(past), torch.from_numpy(fut), torch.from_numpy(y)


def main(steps=8):
    random.seed(12)
    torch.manual_seed(12)
    device = xla.device()
    model = Forecaster().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.02)
    for step, batch in enumerate(batches(steps)):
        past, cal, y = (b.to(device) for b in batch)
        pred = model(past, cal, y, teacher_ratio(step))
        loss = pinball(pred, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xla.sync()
        print(f"step {step} pinball {loss.item():.4f}")


if __name__ == "__main__":
    main()
