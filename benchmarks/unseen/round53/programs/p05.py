"""Traffic speed forecasting on a sensor graph: graph convolution encoder, horizon curriculum."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def synth_traffic(n_nodes, t_total, rng):
    pos = rng.uniform(size=(n_nodes, 2))
    dist = np.linalg.norm(pos[:, None] - pos[None], axis=-1)
    adj = np.exp(-(dist / 0.25) ** 2) * (dist < 0.5)
    adj /= adj.sum(1, keepdims=True)
    t = np.arange(t_total)
    base = 55 + 8 * np.sin(2 * np.pi * t / 48)[:, None]
    x = base + rng.normal(size=(t_total, n_nodes)) * 4 + rng.normal(size=(1, n_nodes)) * 5
    for i in range(1, t_total):
        x[i] = 0.5 * x[i] + 0.5 * (adj @ x[i - 1])
    x[rng.uniform(size=x.shape) < 0.08] = 0.0  # detector outage
    return x.astype(np.float32), adj.astype(np.float32)


class Scaler:
    def __init__(self, x):
        seen = x[x > 0]
        self.mean, self.std = float(seen.mean()), float(seen.std())

    def transform(self, x):
        return (x - self.mean) / self.std

    def inverse(self, x):
        return x * self.std + self.mean


class DiffusionConv(nn.Module):
    def __init__(self, c_in, c_out, k=2):
        super().__init__()
        self.k = k
        self.lin = nn.Linear(c_in * (k + 1), c_out)

    def forward(self, x, adj):  # b, n, c
        feats = [x]
        for _ in range(self.k):
            feats.append(torch.einsum("nm,bmc->bnc", adj, feats[-1]))
        return self.lin(torch.cat(feats, -1))


class Forecaster(nn.Module):
    def __init__(self, t_in, t_out, hidden=32):
        super().__init__()
        self.inp = nn.Linear(t_in, hidden)
        self.conv = DiffusionConv(hidden, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, t_out)

    def forward(self, x, adj):  # b, t, n
        h = self.inp(x.transpose(1, 2))
        h = self.norm(h + F.relu(self.conv(h, adj)))
        return self.out(h).transpose(1, 2)


def masked_mae(pred, target, null_val=0.0):
    observed = target != null_val
    err = (pred - target).abs()
    return err[observed].mean()


class Trainer:
    def __init__(self, model, adj, scaler, args, device):
        self.model, self.adj, self.scaler, self.device = model, adj, scaler, device
        self.opt = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=1e-4)
        self.t_out = args.t_out
        self.level_every = args.level_every
        self.task_level = 1
        self.it = 0

    def train_step(self, x, y):
        self.model.train()
        self.opt.zero_grad()
        pred = self.scaler.inverse(self.model(x, self.adj))
        if self.it > 0 and self.it % self.level_every == 0 and self.task_level < self.t_out:
            self.task_level += 1
        loss = masked_mae(pred[:, :self.task_level], y[:, :self.task_level])
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.opt.step()
        self.it += 1
        return loss.detach()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--nodes", type=int, default=20)
    ap.add_argument("--t-in", type=int, default=12)
    ap.add_argument("--t-out", type=int, default=12)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--steps", type=int, default=18)
    ap.add_argument("--level-every", type=int, default=2)
    ap.add_argument("--lr", type=float, default=5e-3)
    args = ap.parse_args()

    torch.manual_seed(17)
    rng = np.random.default_rng(17)
    device = torch_xla.device()
    series, adj = synth_traffic(args.nodes, 1500, rng)
    scaler = Scaler(series)
    model = Forecaster(args.t_in, args.t_out).to(device)
    trainer = Trainer(model, torch.from_numpy(adj).to(device), scaler, args, device)

    for step in range(args.steps):
        starts = rng.integers(0, len(series) - args.t_in - args.t_out, size=args.batch)
        x = np.stack([series[s:s + args.t_in] for s in starts])
        y = np.stack([series[s + args.t_in:s + args.t_in + args.t_out] for s in starts])
        x = torch.from_numpy(scaler.transform(x)).to(device)
        y = torch.from_numpy(y).to(device)
        loss = trainer.train_step(x, y)
        xm.mark_step()
        if step % 6 == 0:
            print(f"iter {step:3d} horizon {trainer.task_level:2d} mae {loss.item():.3f}")


if __name__ == "__main__":
    main()
