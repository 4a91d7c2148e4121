# Seq2seq load forecasting: GRU encoder + GRU-cell decoder, decoder inputs are mixed
# between observations and the model's own predictions as training progresses.
import math
import random

import numpy as np
import torch
from torch import nn
import torch_xla
import torch_xla.core.xla_model as xm

HISTORY = 24
HORIZON = 6
HIDDEN = 12
STEPS = 30
BATCH = 16


def make_series(n_points=3000, seed=3):
    rng = np.random.default_rng(seed)
    t = np.arange(n_points)
    daily = np.sin(2 * np.pi * t / 24)
    weekly = 0.5 * np.sin(2 * np.pi * t / 168)
    noise = rng.normal(0, 0.1, n_points)
    return (daily + weekly + noise).astype(np.float32)


def windows(series, batch, rng):
    starts = rng.integers(0, len(series) - HISTORY - HORIZON, size=batch)
    x = np.stack([series[s:s + HISTORY] for s in starts])
    y = np.stack([series[s + HISTORY:s + HISTORY + HORIZON] for s in starts])
    return torch.from_numpy(x), torch.from_numpy(y)


def inverse_sigmoid(step, k=12.0):
    return k / (k + math.exp(step / k))


class Encoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.conv = nn.Conv1d(1, hidden, kernel_size=4, stride=4)
        self.mix = nn.Linear(hidden * (HISTORY // 4), hidden)

    def forward(self, x):
        h = torch.relu(self.conv(x.unsqueeze(1)))
        return torch.tanh(self.mix(h.flatten(1)))


class Decoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.gates = nn.Linear(hidden + 1, 2 * hidden)
        self.cand = nn.Linear(hidden + 1, hidden)
        self.out = nn.Linear(hidden, 1)

    def cell(self, inp, h):
        z, r = torch.sigmoid(self.gates(torch.cat([inp, h], 1))).chunk(2, 1)
        n = torch.tanh(self.cand(torch.cat([inp, r * h], 1)))
        return (1 - z) * h + z * n

    def forward(self, last_obs, h, targets=None, teacher_forcing=0.0):
        inp = last_obs
        preds = []
        for t in range(HORIZON):
            h = self.cell(inp, h)
            y = self.out(h)
            preds.append(y)
            if targets is not None and random.random() < teacher_forcing:
                inp = targets[:, t:t + 1]
            else:
                inp = y
        return torch.cat(preds, dim=1)


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder(HIDDEN)
        self.decoder = Decoder(HIDDEN)

    def forward(self, x, y=None, teacher_forcing=0.0):
        return self.decoder(x[:, -1:], self.encoder(x), y, teacher_forcing)


def train():
    random.seed(11)
    torch.manual_seed(11)
    rng = np.random.default_rng(11)
    dev = torch_xla.device()
    series = make_series()
    model = Forecaster().to(dev)
    optim = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(STEPS):
        x, y = (v.to(dev) for v in windows(series, BATCH, rng))
        eps = inverse_sigmoid(step)
        optim.zero_grad()
        pred = model(x, y, teacher_forcing=eps)
        loss = nn.functional.smooth_l1_loss(pred, y)
        loss.backward()
        optim.step()
        torch_xla.sync()
        if step % 10 == 9:
            print(f"step {step + 1:3d}  tf={eps:.2f}  loss={loss.item():.4f}")


if __name__ == "__main__":
    train()
