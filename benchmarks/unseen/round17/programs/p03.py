"""Next-hour load regression from fleet telemetry exports.

The nightly export is one long csv; it is streamed in chunks so the whole file
never has to fit in memory. Counters that a node failed to report are empty.
"""
import io
import sys
import time

import numpy as np
import pandas as pd
import torch
from torch import nn
import torch_xla

COUNTERS = ["conn", "retries", "evictions", "faults", "queue"]
GAUGES = ["cpu", "mem", "temp"]
TARGET = "load_next"
CHUNK = 48
EPOCHS = 2


def make_export(rows=48 * 30, seed=7):
    """Stands in for the export that the collector writes every night."""
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({g: rng.normal(0, 1, rows) for g in GAUGES})
    for i, c in enumerate(COUNTERS):
        df[c] = rng.poisson(2 + i, rows)
    df[TARGET] = 0.6 * df["cpu"] + 0.1 * df["queue"] - 0.2 * df["temp"] + rng.normal(0, 0.1, rows)
    out = df.astype({c: "Int64" for c in COUNTERS})
    for c in COUNTERS:
        out.loc[rng.random(rows) < 0.012, c] = pd.NA
    return out.to_csv(index=False)


class ExportReader:
    """Iterates over one export, a chunk at a time."""

    def __init__(self, text, chunk):
        self.text, self.chunk = text, chunk

    def __iter__(self):
        for df in pd.read_csv(io.StringIO(self.text), chunksize=self.chunk):
            df[COUNTERS] = df[COUNTERS].fillna(0)
            yield self.to_tensors(df)

    def to_tensors(self, df):
        sample = {c: torch.from_numpy(df[c].to_numpy().copy()) for c in COUNTERS}
        sample["gauges"] = torch.from_numpy(df[GAUGES].to_numpy(dtype=np.float32))
        sample["y"] = torch.from_numpy(df[TARGET].to_numpy(dtype=np.float32))
        return sample


class LoadModel(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        n = len(COUNTERS) + len(GAUGES)
        self.scale = nn.Parameter(torch.ones(len(COUNTERS)))
        self.body = nn.Sequential(
            nn.Linear(n, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
            nn.Linear(width, 1))

    def forward(self, s):
        counts = torch.stack([s[c].float() for c in COUNTERS], dim=-1)
        z = torch.log1p(counts) * self.scale
        return self.body(torch.cat([s["gauges"], z], dim=-1)).squeeze(-1)


def to_device(sample, device):
    return {k: v.to(device) for k, v in sample.items()}


@torch.no_grad()
def evaluate(model, sample):
    model.eval()
    err = (model(sample) - sample["y"]).abs().mean()
    model.train()
    return err.item()


def report(kind, **values):
    body = " ".join(f"{k}={v}" for k, v in values.items())
    print(f"[{time.strftime('%H:%M:%S')}] {kind} {body}", file=sys.stderr)


def main():
    torch.manual_seed(1)
    device = torch_xla.device()
    model = LoadModel().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    huber = nn.SmoothL1Loss()

    holdout = to_device(next(iter(ExportReader(make_export(CHUNK, seed=70), CHUNK))), device)
    reader = ExportReader(make_export(), CHUNK)
    running = torch.zeros((), device=device)
    torch_xla.sync()

    step = 0
    for epoch in range(EPOCHS):
        for sample in reader:
            sample = to_device(sample, device)
            opt.zero_grad()
            loss = huber(model(sample), sample["y"])
            loss.backward()
            opt.step()
            running = 0.95 * running + 0.05 * loss.detach()
            torch_xla.sync()
            step += 1
            if step % 12 == 0:
                report("train", step=step, smooth=f"{running.item():.4f}")
            if step % 20 == 0:
                report("holdout", step=step, mae=f"{evaluate(model, holdout):.4f}")
        report("epoch", n=epoch, last=f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
