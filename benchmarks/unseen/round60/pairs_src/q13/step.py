"""Claim frequency model (Poisson) on the motor portfolio extract, streamed in chunks."""
import os
import tempfile

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CATEGORICAL = {"region": 12, "vehicle_brand": 8, "fuel": 3}
NUMERIC = ["driver_age", "vehicle_age", "vehicle_power", "bonus_malus", "density"]
CHUNK = 64


def write_extract(path, n_rows=512, seed=7):
    """Stands in for the nightly export of the policy and claims systems."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({c: rng.integers(0, k, n_rows) for c, k in CATEGORICAL.items()})
    frame["driver_age"] = rng.integers(18, 90, n_rows)
    frame["vehicle_age"] = rng.integers(0, 25, n_rows)
    frame["vehicle_power"] = rng.integers(4, 15, n_rows)
    frame["bonus_malus"] = rng.integers(50, 150, n_rows)
    frame["density"] = rng.lognormal(5, 1.5, n_rows).round(1)
    frame["exposure"] = rng.uniform(0.05, 1.0, n_rows).round(3)
    claims = pd.Series(rng.poisson(0.3, n_rows)).astype("Int64")
    claims[rng.choice(np.arange(4 * CHUNK, n_rows), 9, replace=False)] = pd.NA
    frame["num_claims"] = claims
    frame.to_csv(path, index=False)


class Scaler:
    def __init__(self):
        self.mean, self.std = None, None

    def fit(self, frame):
        values = frame[NUMERIC].to_numpy(dtype=np.float32)
        self.mean, self.std = values.mean(0), values.std(0) + 1e-6
        return self

    def __call__(self, frame):
        return (frame[NUMERIC].to_numpy(dtype=np.float32) - self.mean) / self.std


def read_batches(path, scaler):
    for chunk in pd.read_csv(path, chunksize=CHUNK):
        chunk = chunk.fillna({"num_claims": 0})
        yield {
            "cat": torch.from_numpy(chunk[list(CATEGORICAL)].to_numpy()),
            "num": torch.from_numpy(scaler(chunk)),
            "exposure": torch.from_numpy(chunk["exposure"].to_numpy(dtype=np.float32)),
            "target": torch.from_numpy(chunk["num_claims"].to_numpy(copy=True)),
        }


class FrequencyNet(nn.Module):
    def __init__(self, dim=8, hidden=32):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(k, dim) for k in CATEGORICAL.values())
        self.net = nn.Sequential(
            nn.Linear(dim * len(CATEGORICAL) + len(NUMERIC), hidden),
            nn.LayerNorm(hidden),
            nn.SiLU(),
            nn.Linear(hidden, hidden),
            nn.LayerNorm(hidden),
            nn.SiLU(),
            nn.Linear(hidden, 1),
        )

    def forward(self, cat, num, exposure):
        parts = [emb(cat[:, i]) for i, emb in enumerate(self.embeddings)]
        log_rate = self.net(torch.cat([*parts, num], dim=-1)).squeeze(-1)
        return log_rate + torch.log(exposure)


def deviance(log_mu, target):
    """Half the mean Poisson deviance, without the part that does not depend on the model."""
    return F.poisson_nll_loss(log_mu, target, log_input=True, full=False)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    workdir = tempfile.TemporaryDirectory(dir=".")
    path = os.path.join(workdir.name, "portfolio.csv")
    write_extract(path)
    scaler = Scaler().fit(pd.read_csv(path, nrows=2 * CHUNK))

    model = FrequencyNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)
    for epoch in range(1):
        for step, batch in enumerate(read_batches(path, scaler)):
            batch = {k: v.to(device) for k, v in batch.items()}
            optimizer.zero_grad()
            log_mu = model(batch["cat"], batch["num"], batch["exposure"])
            loss = deviance(log_mu, batch["target"])
            loss.backward()
            optimizer.step()
            torch_xla.sync()
        print(f"epoch {epoch} step {step} deviance {loss.item():.4f}")


if __name__ == "__main__":
    main()
