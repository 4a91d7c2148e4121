"""Next-day demand regression for bike-share stations from nightly CSV exports.

Every export is one file per night; a column that a station did not report is
left empty in the export.  Missing entries get a learned replacement value.
"""
import csv
import os
import tempfile

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FEATURES = ["docks", "departures", "arrivals", "repairs", "members", "temperature", "rain_mm"]
TARGET = "demand"
ROWS_PER_NIGHT = 64
BATCH = 32
NIGHTS = 26


def write_exports(folder, nights, seed=14):
    """Stand-in for the warehouse dump: one CSV per night."""
    rng = np.random.default_rng(seed)
    paths = []
    for night in range(nights):
        docks = rng.integers(10, 40, ROWS_PER_NIGHT)
        departures = rng.poisson(docks * 1.5)
        arrivals = rng.poisson(docks * 1.4)
        repairs = rng.poisson(0.6, ROWS_PER_NIGHT)
        members = rng.integers(0, 120, ROWS_PER_NIGHT)
        temperature = np.round(rng.normal(14, 6, ROWS_PER_NIGHT), 1)
        rain = np.round(rng.exponential(1.2, ROWS_PER_NIGHT), 2)
        demand = departures + 0.3 * members + 0.8 * temperature - 2.0 * rain
        columns = [docks, departures, arrivals, repairs, members, temperature, rain]
        unreported = {
            "docks": 0.2, "departures": 0.4, "arrivals": 0.4, "repairs": 0.3, "members": 0.5,
        }
        path = os.path.join(folder, f"night_{night:03d}.csv")
        with open(path, "w", newline="") as f:
            out = csv.writer(f)
            out.writerow(FEATURES + [TARGET])
            gaps = {c: rng.random() < p for c, p in unreported.items()}
            for r in range(ROWS_PER_NIGHT):
                row = [col[r] for col in columns]
                for i, name in enumerate(FEATURES):
                    if gaps.get(name) and rng.random() < 0.1:
                        row[i] = ""
                out.writerow(row + [round(float(demand[r]), 2)])
        paths.append(path)
    return paths


class NightlyReader:
    """Yields ({column: tensor}, target) batches, one export after the other."""

    def __init__(self, paths, batch):
        self.paths, self.batch = paths, batch

    def __iter__(self):
        for path in self.paths:
            frame = pd.read_csv(path)
            frame = frame.sample(frac=1.0, random_state=0).reset_index(drop=True)
            for start in range(0, len(frame) - self.batch + 1, self.batch):
                part = frame.iloc[start : start + self.batch]
                features = {c: torch.from_numpy(part[c].to_numpy(copy=True)) for c in FEATURES}
                target = torch.tensor(part[TARGET].to_numpy(), dtype=torch.float32)
                yield features, target


class ColumnEncoder(nn.Module):
    """Scale one column and embed it, with a learned stand-in for missing values."""

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(0.05))
        self.missing = nn.Parameter(torch.zeros(()))
        self.weight = nn.Parameter(torch.randn(width) * 0.1)

    def forward(self, values):
        values = values.float()
        scaled = torch.nan_to_num(values) * self.scale
        values = torch.where(torch.isnan(values), self.missing, scaled)
        return values.unsqueeze(-1) * self.weight


class DemandNet(nn.Module):
    def __init__(self, columns, width=16, hidden=32):
        super().__init__()
        self.encoders = nn.ModuleDict({c: ColumnEncoder(width) for c in columns})
        self.head = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )

    def forward(self, features):
        tokens = [enc(features[name]) for name, enc in self.encoders.items()]
        return self.head(torch.stack(tokens).sum(0)).squeeze(-1)


def to_device(batch, device):
    features, target = batch
    return {k: v.to(device) for k, v in features.items()}, target.to(device)


def train(paths):
    device = torch_xla.device()
    model = DemandNet(FEATURES).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    recent = []
    for step, batch in enumerate(NightlyReader(paths, BATCH), start=1):
        features, target = to_device(batch, device)
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(model(features), target / 50.0)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        recent.append(loss.item())
        if step % 13 == 0:
            print(f"batch {step:3d}: loss {np.mean(recent):.4f}")
            recent.clear()
    return model


def main():
    torch.manual_seed(14)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_exports(folder, NIGHTS)
        model = train(paths)
    total = sum(p.numel() for p in model.parameters())
    print(f"trained on {len(paths)} exports, {total} parameters")


if __name__ == "__main__":
    main()
