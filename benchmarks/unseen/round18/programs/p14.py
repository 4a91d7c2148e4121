"""Short-term load forecasting for feeders (hourly, 48 h in, 12 h out).

usage: python forecast.py
"""
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

HISTORY, HORIZON, FEEDERS = 48, 12, 4
BATCH = 16
EPOCHS = 6
QUANTILES = (0.1, 0.5, 0.9)


class LoadWindows(Dataset):
    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        hours = np.arange(count + HISTORY + HORIZON)
        daily = np.sin(2 * np.pi * hours / 24)[:, None] * rng.uniform(0.5, 1.5, FEEDERS)
        weekly = np.cos(2 * np.pi * hours / 168)[:, None] * rng.uniform(0.1, 0.5, FEEDERS)
        self.series = (daily + weekly + rng.normal(0, 0.1, (len(hours), FEEDERS))).astype("float32")
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        past = self.series[i:i + HISTORY].T
        future = self.series[i + HISTORY:i + HISTORY + HORIZON, 0]
        return past.copy(), future.copy()


class FeederShuffle:
    """Augmentation on the device: rotate the feeders, add sensor noise."""

    def __init__(self, noise, seed):
        self.noise = noise
        self.rand = random.Random(seed)

    def __call__(self, past):
        target, others = past[:, :1], past[:, 1:]
        lag = self.rand.randint(-11, 11)
        others = torch.roll(others, lag, dims=-1)
        jitter = self.noise * torch.randn_like(past)
        return torch.cat([target, others], 1) + jitter


class Forecaster(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(FEEDERS, width, 5, padding=2), nn.SiLU(),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.SiLU(),
        )
        self.head = nn.Linear(width * HISTORY // 2, HORIZON * len(QUANTILES))

    def forward(self, past):
        return self.head(self.conv(past).flatten(1)).view(-1, HORIZON, len(QUANTILES))


def pinball(pred, future):
    total = 0.0
    for i, q in enumerate(QUANTILES):
        d = future - pred[..., i]
        total = total + torch.maximum(q * d, (q - 1) * d).mean()
    return total / len(QUANTILES)


class ErrorReport:
    """Absolute errors of the median forecast, summarised by percentile."""

    def __init__(self):
        self.errors = []

    def update(self, pred, future):
        self.errors.append((pred[..., 1] - future).abs().mean(-1))

    def summary(self):
        e = torch.sort(torch.cat(self.errors)).values
        n = e.shape[0]
        picked = torch.stack([e.mean(), e[n // 2], e[(9 * n) // 10]])
        return [round(v, 4) for v in picked.tolist()]


class Run:
    def __init__(self):
        self.device = xm.xla_device()
        torch.manual_seed(0)
        self.model = Forecaster().to(self.device)
        self.augment = FeederShuffle(0.02, seed=8)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.train = DataLoader(LoadWindows(192, 0), BATCH, shuffle=True, drop_last=True)
        self.valid = DataLoader(LoadWindows(48, 1), BATCH, drop_last=True)
        self.report = ErrorReport()

    def epoch(self):
        self.model.train()
        running = torch.zeros((), device=self.device)
        for past, future in pl.MpDeviceLoader(self.train, self.device):
            self.optimizer.zero_grad()
            loss = pinball(self.model(self.augment(past)), future)
            loss.backward()
            self.optimizer.step()
            running += loss.detach()
        torch_xla.sync()
        return running.item() / len(self.train)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        for past, future in pl.MpDeviceLoader(self.valid, self.device):
            self.report.update(self.model(past), future)
        return self.report.summary()

    def main(self):
        for n in range(EPOCHS):
            began = time.time()
            loss = self.epoch()
            mean, median, p90 = self.validate()
            print(f"epoch {n}: pinball {loss:.4f}  mae {mean} median {median} p90 {p90}"
                  f"  ({time.time() - began:.1f}s)")


if __name__ == "__main__":
    Run().main()
