# Demand forecasting on point-of-sale records, streamed in chunks.
import numpy as np
import pandas as pd
import torch
from torch import nn
import torch_xla

N_CHUNKS = 24
ROWS = 1024
BATCH = 128
COLS = ["store", "sku", "units_lag1", "units_lag7", "price_cents", "weekday"]


def read_chunks(seed=11):
    """Stand-in for pd.read_csv(..., chunksize=ROWS) over the export."""
    rng = np.random.default_rng(seed)
    for _ in range(N_CHUNKS):
        region = rng.integers(1, 5)
        scale = rng.choice([4.0, 12.0, 15.0, 60.0])
        df = pd.DataFrame(
            {
                "store": rng.integers(0, 60 * region, ROWS),
                "sku": rng.integers(0, 400, ROWS),
                "units_lag1": rng.gamma(2.0, scale, ROWS).astype(np.int64),
                "units_lag7": rng.gamma(2.0, scale * 1.3, ROWS).astype(np.int64),
                "price_cents": (rng.lognormal(6.5, 1.2, ROWS)).astype(np.int64),
                "weekday": rng.integers(0, 7, ROWS),
            }
        )
        noise = rng.normal(0, 0.1, ROWS)
        df["target"] = 0.6 * np.log1p(df["units_lag1"]) + 0.3 * np.log1p(df["units_lag7"]) + noise
        yield df


def shrink(df):
    # keeps the host footprint of a chunk small, the raw export is int64 everywhere
    for c in COLS:
        df[c] = pd.to_numeric(df[c], downcast="integer")
    df["target"] = df["target"].astype(np.float32)
    return df


def batches(df, rng):
    order = rng.permutation(len(df))
    for i in range(0, len(df) - BATCH + 1, BATCH):
        part = df.iloc[order[i : i + BATCH]]
        x = {c: torch.from_numpy(part[c].to_numpy(copy=True)) for c in COLS}
        yield x, torch.from_numpy(part["target"].to_numpy(copy=True))


class DemandNet(nn.Module):
    def __init__(self, n_store=256, n_sku=400, d=8):
        super().__init__()
        self.store = nn.Embedding(n_store, d)
        self.sku = nn.Embedding(n_sku, d)
        self.weekday = nn.Embedding(7, 4)
        self.mlp = nn.Sequential(
            nn.Linear(2 * d + 4 + 3, 48), nn.SiLU(), nn.Linear(48, 24), nn.SiLU(), nn.Linear(24, 1)
        )

    def forward(self, x):
        num = torch.stack([x["units_lag1"], x["units_lag7"], x["price_cents"]], 1).float()
        h = torch.cat(
            [
                self.store(x["store"].long()),
                self.sku(x["sku"].long()),
                self.weekday(x["weekday"].long()),
                torch.log1p(num),
            ],
            1,
        )
        return self.mlp(h).squeeze(1)


def train():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    dev = torch_xla.device()
    model = DemandNet().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
    seen = 0
    running = torch.zeros((), device=dev)
    for k, raw in enumerate(read_chunks()):
        df = shrink(raw)
        for x, y in batches(df, rng):
            x = {c: v.to(dev) for c, v in x.items()}
            y = y.to(dev)
            loss = nn.functional.smooth_l1_loss(model(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            running = 0.95 * running + 0.05 * loss.detach()
            torch_xla.sync()
            seen += 1
        if k % 6 == 5:
            print(f"chunk {k + 1}/{N_CHUNKS} steps {seen} smoothed loss {running.item():.4f}")


if __name__ == "__main__":
    train()
