"""Short-horizon demand forecasting for bike stations.

Linear summary of the observed window, GRU decoder with a Gaussian head.  The decoder is trained with
scheduled sampling: the probability of feeding the observed value decays linearly.
"""
import argparse
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


class StationForecaster(nn.Module):
    def __init__(self, n_stations, n_cov, past, hidden=16, emb=4):
        super().__init__()
        self.station = nn.Embedding(n_stations, emb)
        self.encoder = nn.Linear(past * (1 + n_cov) + emb, hidden)
        self.decoder = nn.GRUCell(1 + n_cov + emb, hidden)
        self.head = nn.Linear(hidden, 2)

    def project(self, h):
        mu, scale = self.head(h).unbind(-1)
        return mu, nn.functional.softplus(scale) + 1e-3

    def forward(self, past, past_cov, future_cov, station, future=None, p_observed=1.0):
        s = self.station(station)
        h = torch.tanh(self.encoder(torch.cat([past, past_cov.flatten(1), s], -1)))
        y = past[:, -1]
        out = []
        for t in range(future_cov.shape[1]):
            h = self.decoder(torch.cat([y[:, None], future_cov[:, t], s], -1), h)
            mu, scale = self.project(h)
            out.append((mu, scale))
            if future is not None and random.random() < p_observed:
                y = future[:, t]
            else:
                y = mu
        return [torch.stack(x, 1) for x in zip(*out)]


def gaussian_nll(y, mu, scale):
    z = (y - mu) / scale
    return 0.5 * z * z + torch.log(scale) + 0.5 * math.log(2 * math.pi)


def batches(n, batch, past, horizon, n_stations, n_cov, seed):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        t0 = rng.uniform(0, 24, size=(batch, 1))
        t = t0 + np.arange(past + horizon)
        base = np.sin(2 * np.pi * t / 24) + 0.3 * rng.standard_normal(t.shape)
        cov = np.stack([np.cos(2 * np.pi * t / 24), np.cos(2 * np.pi * t / 168)][:n_cov], -1)
        st = rng.integers(0, n_stations, batch)
        yield (base[:, :past], base[:, past:], cov[:, :past], cov[:, past:], st)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=8)
    ap.add_argument("--past", type=int, default=8)
    ap.add_argument("--horizon", type=int, default=4)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()

    torch.manual_seed(0)
    random.seed(5)
    dev = torch_xla.device()
    model = StationForecaster(20, 2, args.past).to(dev)
    opt = torch.optim.RMSprop(model.parameters(), lr=args.lr, alpha=0.95, momentum=0.9)
    xm.mark_step()

    data = batches(args.steps, args.batch, args.past, args.horizon, 20, 2, seed=1)
    for step, (past, future, pc, fc, st) in enumerate(data):
        past, future, pc, fc = (torch.tensor(a, dtype=torch.float32).to(dev) for a in (past, future, pc, fc))
        st = torch.tensor(st).to(dev)
        p = max(0.3, 1.0 - 0.1 * step)
        mu, scale = model(past, pc, fc, st, future, p)
        loss = gaussian_nll(future, mu, scale).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        print(step, round(p, 2), float(loss.detach().cpu()))


if __name__ == "__main__":
    main()
