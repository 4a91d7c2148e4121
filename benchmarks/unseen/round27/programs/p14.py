"""Probabilistic load forecasting with an encoder/decoder GRU (quantile loss)."""
import math
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
import torch_xla.core.xla_model as xm

HISTORY = 24
HORIZON = 5
QUANTILES = [0.1, 0.5, 0.9]


class LoadDataset(Dataset):

    def __init__(self, n_series=6, length=240, seed=0):
        rng = np.random.default_rng(seed)
        t = np.arange(length)
        self.windows = []
        for _ in range(n_series):
            amp, phase = rng.uniform(0.5, 2), rng.uniform(0, 6.28)
            s = amp * np.sin(2 * math.pi * t / 24 + phase) + 0.3 * np.sin(2 * math.pi * t / 168)
            s = (s + rng.normal(0, 0.1, length)).astype(np.float32)
            hour = np.stack([np.sin(2 * math.pi * t / 24), np.cos(2 * math.pi * t / 24)], 1).astype(np.float32)
            for i in range(0, length - HISTORY - HORIZON, 4):
                self.windows.append((s[i:i + HISTORY + HORIZON], hour[i:i + HISTORY + HORIZON]))

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, i):
        return self.windows[i]


class Encoder(nn.Module):

    def __init__(self, hidden):
        super().__init__()
        self.mix = nn.Linear(HISTORY * 3, hidden)
        self.out = nn.Linear(hidden, hidden)

    def forward(self, y, cov):
        flat = torch.cat([y.unsqueeze(-1), cov], -1).flatten(1)
        return torch.tanh(self.out(torch.relu(self.mix(flat))))


class Decoder(nn.Module):

    def __init__(self, hidden):
        super().__init__()
        self.cell = nn.GRUCell(3, hidden)
        self.proj = nn.Linear(hidden, len(QUANTILES))

    def forward(self, state, last, cov, target=None, tf_ratio=0.0):
        outputs = []
        inp = last
        for t in range(HORIZON):
            state = self.cell(torch.cat([inp.unsqueeze(-1), cov[:, t]], -1), state)
            q = self.proj(state)
            outputs.append(q)
            if target is not None and random.random() < tf_ratio:
                inp = target[:, t]
            else:
                inp = q[:, 1].detach()
        return torch.stack(outputs, 1)


def pinball(pred, y):
    total = 0.0
    for k, tau in enumerate(QUANTILES):
        e = y - pred[..., k]
        total = total + torch.maximum(tau * e, (tau - 1) * e).mean()
    return total / len(QUANTILES)


def inverse_sigmoid_decay(step, k=12.0):
    return k / (k + math.exp(step / k))


def train(epochs=2, batch_size=16, hidden=24):
    random.seed(11)
    torch.manual_seed(11)
    device = xm.xla_device()
    loader = DataLoader(LoadDataset(), batch_size=batch_size, shuffle=True, drop_last=True)
    enc, dec = Encoder(hidden).to(device), Decoder(hidden).to(device)
    params = list(enc.parameters()) + list(dec.parameters())
    opt = torch.optim.Adam(params, lr=3e-3)
    step = 0
    for epoch in range(epochs):
        losses = []
        for y, cov in loader:
            y, cov = y.to(device), cov.to(device)
            past, future = y[:, :HISTORY], y[:, HISTORY:]
            opt.zero_grad()
            state = enc(past, cov[:, :HISTORY])
            pred = dec(state, past[:, -1], cov[:, HISTORY:], target=future,
                       tf_ratio=inverse_sigmoid_decay(step))
            loss = pinball(pred, future)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(params, 1.0)
            xm.optimizer_step(opt, barrier=True)
            losses.append(loss.detach())
            step += 1
        print("epoch", epoch, "pinball", round(float(np.mean([l.item() for l in losses])), 4))


if __name__ == "__main__":
    train()
