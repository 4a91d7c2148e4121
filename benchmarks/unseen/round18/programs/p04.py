"""Claim severity model for motor insurance, trained straight from the CSV export.

The export is too large for memory in production, so it is streamed with
``pandas.read_csv(chunksize=...)``; every chunk is one batch.
"""
import os
import tempfile

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset
import torch_xla
import torch_xla.distributed.parallel_loader as pl

NUMERIC = ["driver_age", "vehicle_age", "annual_km", "previous_claims", "engine_ccm"]
SCALE = {"driver_age": (45, 14), "vehicle_age": (8, 5), "annual_km": (14000, 5000),
         "previous_claims": (1, 1), "engine_ccm": (1600, 400)}
REGIONS = ["north", "east", "south", "west"]


def write_export(path, rows, seed):
    """Stand-in for the nightly dump of the claims database."""
    g = np.random.default_rng(seed)
    df = pd.DataFrame({
        "driver_age": g.integers(18, 85, rows),
        "vehicle_age": g.integers(0, 22, rows),
        "annual_km": g.integers(3000, 40000, rows),
        "previous_claims": g.poisson(0.6, rows),
        "engine_ccm": g.integers(900, 3000, rows),
        "region": g.choice(REGIONS, rows),
    })
    df["severity"] = np.round(np.exp(
        6.0 + 0.01 * (df.driver_age - 45).abs() + 0.2 * df.previous_claims
        + 0.0002 * (df.engine_ccm - 1600) + 0.3 * g.standard_normal(rows)), 2)
    df = df.astype({c: "Int64" for c in NUMERIC})
    for c, rate in [("annual_km", 0.02), ("previous_claims", 0.012), ("engine_ccm", 0.015)]:
        df.loc[g.random(rows) < rate, c] = pd.NA
    df.to_csv(path, index=False)


class ClaimsStream(IterableDataset):
    """Yields one dictionary of tensors per chunk of the CSV file."""

    def __init__(self, path, rows_per_batch, limit=None):
        self.path = path
        self.rows_per_batch = rows_per_batch
        self.limit = limit

    def __iter__(self):
        reader = pd.read_csv(self.path, chunksize=self.rows_per_batch)
        for i, chunk in enumerate(reader):
            if self.limit is not None and i >= self.limit:
                break
            if len(chunk) < self.rows_per_batch:
                break
            yield self.encode(chunk)

    @staticmethod
    def encode(chunk):
        batch = {}
        for col in NUMERIC:
            values = chunk[col].fillna(SCALE[col][0])
            batch[col] = torch.from_numpy(values.to_numpy().copy())
        codes = chunk["region"].map({r: i for i, r in enumerate(REGIONS)})
        batch["region"] = torch.from_numpy(codes.to_numpy(dtype=np.int64))
        batch["target"] = torch.from_numpy(np.log(chunk["severity"].to_numpy(dtype=np.float32)))
        return batch


class SeverityNet(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.region = nn.Embedding(len(REGIONS), 4)
        self.mlp = nn.Sequential(
            nn.Linear(len(NUMERIC) + 4, hidden), nn.SiLU(), nn.Dropout(0.1),
            nn.Linear(hidden, hidden), nn.SiLU(),
            nn.Linear(hidden, 1))
        nn.init.constant_(self.mlp[-1].bias, 6.0)

    def forward(self, batch):
        cols = []
        for name in NUMERIC:
            mu, sd = SCALE[name]
            cols.append(((batch[name] - mu) / sd).float())
        x = torch.cat([torch.stack(cols, dim=1), self.region(batch["region"])], dim=1)
        return self.mlp(x).squeeze(1)


def train_epoch(net, opt, loader, epoch, every=10):
    net.train()
    running = None
    for i, batch in enumerate(loader):
        loss = nn.functional.smooth_l1_loss(net(batch), batch["target"])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        running = loss.detach() if running is None else 0.9 * running + 0.1 * loss.detach()
        if (i + 1) % every == 0:
            torch_xla.sync()
            print(f"  epoch {epoch} batch {i + 1:3d}  smoothed loss {running.item():.4f}")


@torch.no_grad()
def evaluate(net, loader):
    net.eval()
    errors = []
    for batch in loader:
        errors.append((net(batch) - batch["target"]).abs().mean())
    torch_xla.sync()
    return float(np.mean([e.item() for e in errors]))


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    with tempfile.TemporaryDirectory() as tmp:
        train_csv = os.path.join(tmp, "claims_train.csv")
        valid_csv = os.path.join(tmp, "claims_valid.csv")
        write_export(train_csv, rows=48 * 30, seed=1)
        write_export(valid_csv, rows=48 * 5, seed=2)

        net = SeverityNet().to(device)
        opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
        for epoch in range(2):
            stream = DataLoader(ClaimsStream(train_csv, 48), batch_size=None)
            train_epoch(net, opt, pl.MpDeviceLoader(stream, device), epoch)
            check = DataLoader(ClaimsStream(valid_csv, 48), batch_size=None)
            mae = evaluate(net, pl.MpDeviceLoader(check, device))
            print(f"epoch {epoch}: validation mae (log) {mae:.4f}")


if __name__ == "__main__":
    main()
