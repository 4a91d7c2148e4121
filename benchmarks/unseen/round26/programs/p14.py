import math
import random

import numpy as np
import torch
from torch import nn
import torch_xla as xla


def make_load_curves(n_series, length, seed):
    """Hourly load of a handful of fictitious substations."""
    r = np.random.default_rng(seed)
    t = np.arange(length)
    out = []
    for _ in range(n_series):
        daily = r.uniform(0.5, 1.5) * np.sin(2 * np.pi * (t / 24 + r.uniform()))
        weekly = r.uniform(0.1, 0.6) * np.sin(2 * np.pi * (t / 168 + r.uniform()))
        out.append(daily + weekly + 0.1 * r.standard_normal(length))
    return np.stack(out).astype(np.float32)


class WindowSampler:
    def __init__(self, curves, context, horizon, batch, seed=0):
        self.curves, self.context, self.horizon, self.batch = curves, context, horizon, batch
        self.r = np.random.default_rng(seed)

    def next(self):
        n, length = self.curves.shape
        rows = self.r.integers(0, n, self.batch)
        starts = self.r.integers(0, length - self.context - self.horizon, self.batch)
        win = np.stack([self.curves[i, s:s + self.context + self.horizon] for i, s in zip(rows, starts)])
        win = torch.from_numpy(win)
        return win[:, :self.context], win[:, self.context:]


class Seq2Seq(nn.Module):
    def __init__(self, context, hidden=24):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(context, 48), nn.GELU(), nn.Linear(48, hidden))
        self.cell = nn.GRUCell(1, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, past, future=None, teacher_ratio=0.0, horizon=5):
        h = torch.tanh(self.encode(past))
        x = past[:, -1:]
        preds = []
        for k in range(horizon):
            h = self.cell(x, h)
            y = x + self.out(h)
            preds.append(y)
            if future is not None and random.random() < teacher_ratio:
                x = future[:, k:k + 1]
            else:
                x = y
        return torch.cat(preds, dim=1)


class Tracker:
    """Keeps the losses of a run and reports on them."""

    def __init__(self):
        self.values = []

    def add(self, loss):
        self.values.append(loss.detach())

    def report(self, step):
        curve = torch.stack(self.values)
        print(f"step {step:3d}  mean {curve.mean().item():.4f}  best {curve.min().item():.4f}  "
              f"last {self.values[-1].item():.4f}")


def teacher_forcing(step, k=12.0):
    """Inverse sigmoid decay."""
    return k / (k + math.exp(step / k))


def evaluate(model, sampler, device, batches=3):
    total = 0.0
    model.eval()
    with torch.no_grad():
        for _ in range(batches):
            past, future = (t.to(device) for t in sampler.next())
            err = (model(past, horizon=sampler.horizon) - future).abs().mean()
            xla.sync()
            total += err.item()
    model.train()
    return total / batches


def main():
    seed, steps, horizon, context = 5, 40, 5, 24
    random.seed(seed)
    torch.manual_seed(seed)
    device = xla.device()
    curves = make_load_curves(6, 24 * 28, seed)
    train, val = WindowSampler(curves[:, :504], context, horizon, 16), \
        WindowSampler(curves[:, 504:], context, horizon, 16, seed=1)
    model = Seq2Seq(context).to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=3e-3)
    tracker = Tracker()
    for step in range(1, steps + 1):
        past, future = (t.to(device) for t in train.next())
        opt.zero_grad()
        pred = model(past, future, teacher_forcing(step), horizon)
        loss = nn.functional.smooth_l1_loss(pred, future)
        loss.backward()
        opt.step()
        xla.sync()
        tracker.add(loss)
        if step % 5 == 0:
            tracker.report(step)
        if step % 20 == 0:
            print(f"          val mae {evaluate(model, val, device):.4f}")


if __name__ == "__main__":
    main()
