"""Diffusion-convolutional recurrent network for short-term traffic speed forecasting."""
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch_xla

SEED = 11
NUM_SENSORS = 10
T_IN = 3
HORIZON = 6
HIDDEN = 8
BATCH = 8
STEPS = 18
CL_DECAY = 8.0


def build_supports(coords, sigma=0.3, threshold=0.1):
    dist = np.linalg.norm(coords[:, None] - coords[None], axis=-1)
    adj = np.exp(-np.square(dist / sigma))
    adj[adj < threshold] = 0.0
    fwd = adj / adj.sum(axis=1, keepdims=True)
    bwd = adj.T / adj.T.sum(axis=1, keepdims=True)
    return torch.tensor(np.concatenate([np.eye(len(adj)), fwd, bwd]), dtype=torch.float32)


class DiffusionConv(nn.Module):
    def __init__(self, in_dim, out_dim, num_supports, bias_start=0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_dim * num_supports, out_dim))
        self.bias = nn.Parameter(torch.full((out_dim,), bias_start))
        nn.init.xavier_normal_(self.weight)

    def forward(self, x, supports):
        b, n, c = x.shape
        hops = torch.matmul(supports, x).view(b, -1, n, c).transpose(1, 2).flatten(2)
        return hops @ self.weight + self.bias


class DCGRUCell(nn.Module):
    def __init__(self, in_dim, hidden, num_supports):
        super().__init__()
        self.gates = DiffusionConv(in_dim + hidden, 2 * hidden, num_supports, 1.0)
        self.cand = DiffusionConv(in_dim + hidden, hidden, num_supports)

    def forward(self, x, h, supports):
        ru = torch.sigmoid(self.gates(torch.cat([x, h], dim=-1), supports))
        r, u = ru.chunk(2, dim=-1)
        c = torch.tanh(self.cand(torch.cat([x, r * h], dim=-1), supports))
        return u * h + (1 - u) * c


class DCRNN(nn.Module):
    def __init__(self, in_dim, hidden, supports, horizon, cl_decay):
        super().__init__()
        self.register_buffer("supports", supports)
        num_supports = supports.size(0) // supports.size(1)
        self.encoder = DCGRUCell(in_dim, hidden, num_supports)
        self.decoder = DCGRUCell(1, hidden, num_supports)
        self.proj = nn.Linear(hidden, 1)
        self.hidden = hidden
        self.horizon = horizon
        self.cl_decay = cl_decay

    def sampling_threshold(self, batches_seen):
        return self.cl_decay / (self.cl_decay + math.exp(batches_seen / self.cl_decay))

    def encode(self, x):
        h = torch.zeros(x.size(0), x.size(2), self.hidden, device=x.device)
        for t in range(x.size(1)):
            h = self.encoder(x[:, t], h, self.supports)
        return h

    def decode(self, h, labels=None, batches_seen=None):
        inp = torch.zeros(h.size(0), h.size(1), 1, device=h.device)
        outputs = []
        for t in range(self.horizon):
            h = self.decoder(inp, h, self.supports)
            out = self.proj(h)
            outputs.append(out)
            inp = out
            if self.training and labels is not None:
                if random.random() < self.sampling_threshold(batches_seen):
                    inp = labels[:, t]
        return torch.stack(outputs, dim=1)

    def forward(self, x, labels=None, batches_seen=None):
        return self.decode(self.encode(x), labels, batches_seen)


def masked_mae(pred, target, null_value=0.0):
    mask = (target != null_value).float()
    mask = mask / mask.mean()
    return (torch.abs(pred - target) * mask).mean()


def synth_series(length, sensors, rng):
    t = np.arange(length)[:, None]
    phase = rng.uniform(0, 2 * np.pi, size=(1, sensors))
    daily = np.sin(2 * np.pi * t / 96 + phase)
    noise = rng.normal(0, 0.15, size=(length, sensors))
    series = daily + noise
    series[rng.random(series.shape) < 0.02] = 0.0
    time_of_day = np.broadcast_to((t % 96) / 96.0, series.shape)
    return np.stack([series, time_of_day], axis=-1).astype(np.float32)


def batches(series, rng):
    last = len(series) - T_IN - HORIZON
    while True:
        starts = rng.integers(0, last, size=BATCH)
        x = np.stack([series[s:s + T_IN] for s in starts])
        y = np.stack([series[s + T_IN:s + T_IN + HORIZON, :, :1] for s in starts])
        yield torch.from_numpy(x), torch.from_numpy(y)


def main():
    torch.manual_seed(SEED)
    random.seed(SEED)
    rng = np.random.default_rng(SEED)
    device = torch_xla.device()

    supports = build_supports(rng.random((NUM_SENSORS, 2)))
    model = DCRNN(2, HIDDEN, supports, HORIZON, CL_DECAY).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    loader = batches(synth_series(2000, NUM_SENSORS, rng), rng)

    model.train()
    running = torch.zeros((), device=device)
    for step in range(STEPS):
        x, y = next(loader)
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        pred = model(x, y, batches_seen=step)
        loss = masked_mae(pred, y)
        loss.backward()
        optimizer.step()
        running += loss.detach()
        torch_xla.sync()
        if (step + 1) % 6 == 0:
            print(f"step {step + 1} mae {running.item() / 6:.4f}")
            running.zero_()


if __name__ == "__main__":
    main()
