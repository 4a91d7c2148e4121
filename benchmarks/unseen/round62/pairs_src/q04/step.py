"""Day-ahead load forecast for distribution substations: convolutional encoder, attentive GRU decoder."""
import argparse
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Encoder(nn.Module):
    def __init__(self, nin, hidden):
        super().__init__()
        self.inp = nn.Conv1d(nin, hidden, 3, padding=1)
        self.mix = nn.Conv1d(hidden, hidden, 3, padding=1)

    def forward(self, x):
        z = F.elu(self.inp(x.transpose(1, 2)))
        z = z + F.elu(self.mix(z))
        return z.transpose(1, 2), z[..., -1].tanh()


class Decoder(nn.Module):
    def __init__(self, ncov, hidden):
        super().__init__()
        self.cell = nn.GRUCell(1 + ncov + hidden, hidden)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.out = nn.Linear(2 * hidden, 1)

    def step(self, y, cov, h, memory):
        score = torch.einsum("bh,bth->bt", self.query(h), memory) / math.sqrt(h.shape[-1])
        ctx = torch.einsum("bt,bth->bh", score.softmax(-1), memory)
        h = self.cell(torch.cat([y, cov, ctx], -1), h)
        return self.out(torch.cat([h, ctx], -1)), h


class Seq2Seq(nn.Module):
    def __init__(self, ncov=5, hidden=16):
        super().__init__()
        self.encoder = Encoder(1 + ncov, hidden)
        self.decoder = Decoder(ncov, hidden)

    def forward(self, past, past_cov, future_cov, target=None, forcing=0.0):
        memory, h = self.encoder(torch.cat([past, past_cov], -1))
        y = past[:, -1]
        preds = []
        for t in range(future_cov.shape[1]):
            y, h = self.decoder.step(y, future_cov[:, t], h, memory)
            preds.append(y)
            if target is not None and random.random() < forcing:
                y = target[:, t]
        return torch.stack(preds, 1)


def pinball(pred, target, tau=0.55):
    e = target - pred
    return torch.maximum(tau * e, (tau - 1.0) * e).mean()


class Windows:
    def __init__(self, batch, past, horizon, ncov, seed):
        self.rng = np.random.default_rng(seed)
        self.batch, self.past, self.horizon, self.ncov = batch, past, horizon, ncov

    def next(self):
        n = self.past + self.horizon
        t = np.arange(n)[None] + self.rng.integers(0, 24, size=(self.batch, 1))
        load = np.sin(2 * np.pi * t / 24) + 0.1 * self.rng.normal(size=t.shape)
        cov = self.rng.normal(size=(self.batch, n, self.ncov))
        load = torch.tensor(load[..., None], dtype=torch.float32)
        cov = torch.tensor(cov, dtype=torch.float32)
        p = self.past
        return load[:, :p], cov[:, :p], cov[:, p:], load[:, p:]


class Meter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.total, self.n = 0.0, 0

    def update(self, value):
        self.total = self.total + value
        self.n += 1

    def mean(self):
        return float(self.total) / max(self.n, 1)


def train(args):
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch_xla.device()
    model = Seq2Seq().to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=2e-3, alpha=0.95)
    data = Windows(args.batch, args.past, args.horizon, 5, args.seed)
    meter = Meter()
    torch_xla.sync()

    for it in range(args.iters):
        past, past_cov, future_cov, target = (x.to(device) for x in data.next())
        forcing = args.forcing * 0.999 ** it
        pred = model(past, past_cov, future_cov, target, forcing)
        loss = pinball(pred, target)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        meter.update(loss.detach())
        torch_xla.sync()
        if (it + 1) % args.log_every == 0:
            print(f"it {it + 1} pinball {meter.mean():.4f}")
            meter.reset()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=6)
    ap.add_argument("--past", type=int, default=12)
    ap.add_argument("--horizon", type=int, default=3)
    ap.add_argument("--forcing", type=float, default=0.6)
    ap.add_argument("--iters", type=int, default=14)
    ap.add_argument("--log-every", type=int, default=5)
    ap.add_argument("--seed", type=int, default=5)
    train(ap.parse_args())
