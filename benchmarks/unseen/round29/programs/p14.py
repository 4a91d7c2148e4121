"""Credit default model trained straight from a chunked csv."""
import io

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

NUMERIC = ["age", "n_accounts", "n_late", "months_employed", "balance"]
CATEGORICAL = {"region": 6, "product": 4}
TARGET = "default"
CHUNK = 32


def write_csv(rows=32 * 40, seed=5):
    """stand-in for the bank's export"""
    rng = np.random.default_rng(seed)
    df = pd.DataFrame(
        {
            "age": rng.integers(18, 80, rows),
            "n_accounts": rng.poisson(3, rows),
            "n_late": rng.poisson(0.8, rows),
            "months_employed": rng.integers(0, 300, rows),
            "balance": rng.normal(1500, 600, rows).round(2),
            "region": rng.integers(0, 6, rows),
            "product": rng.integers(0, 4, rows),
        }
    )
    logit = 0.9 * df.n_late - 0.02 * (df.age - 45) - 0.004 * df.months_employed - 0.4
    df[TARGET] = (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(int)
    for col, rate in [("n_accounts", 0.02), ("n_late", 0.015), ("months_employed", 0.03)]:
        df[col] = df[col].astype("Int64").mask(rng.random(rows) < rate)
    buf = io.StringIO()
    df.to_csv(buf, index=False)
    return buf.getvalue()


def to_device(chunk, device):
    batch = {c: torch.from_numpy(chunk[c].to_numpy()).to(device) for c in NUMERIC}
    batch.update({c: torch.from_numpy(chunk[c].to_numpy()).to(device) for c in CATEGORICAL})
    batch[TARGET] = torch.from_numpy(chunk[TARGET].to_numpy(np.float32)).to(device)
    return batch


class Scaler(nn.Module):
    """running standardisation, missing values become the mean"""

    def __init__(self, n, momentum=0.05):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("var", torch.ones(n))

    def forward(self, x):
        ok = ~torch.isnan(x)
        x = torch.where(ok, x, self.mean)
        if self.training:
            with torch.no_grad():
                self.mean.add_(x.mean(0) - self.mean, alpha=self.momentum)
                self.var.add_(x.var(0) - self.var, alpha=self.momentum)
        return (x - self.mean) / (self.var + 1e-5).sqrt(), ok.float()


class DefaultNet(nn.Module):
    def __init__(self, dim=4):
        super().__init__()
        self.scaler = Scaler(len(NUMERIC))
        self.emb = nn.ModuleDict({c: nn.Embedding(n, dim) for c, n in CATEGORICAL.items()})
        width = 2 * len(NUMERIC) + dim * len(CATEGORICAL)
        self.net = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 16), nn.GELU(), nn.Linear(16, 1))

    def forward(self, batch):
        x = torch.stack([batch[c].float() for c in NUMERIC], dim=1)
        x, seen = self.scaler(x)
        e = [self.emb[c](batch[c]) for c in CATEGORICAL]
        return self.net(torch.cat([x, seen] + e, dim=1)).squeeze(1)


def run():
    torch.manual_seed(0)
    device = xm.xla_device()
    csv = write_csv()
    model = DefaultNet().to(device).train()
    optim = torch.optim.AdamW(model.parameters(), lr=3e-3)
    bce = nn.BCEWithLogitsLoss()

    for epoch in range(2):
        for chunk in pd.read_csv(io.StringIO(csv), chunksize=CHUNK):
            batch = to_device(chunk, device)
            loss = bce(model(batch), batch[TARGET])
            optim.zero_grad()
            loss.backward()
            xm.optimizer_step(optim, barrier=True)
        print("epoch", epoch, "bce of last chunk", round(loss.item(), 4))


if __name__ == "__main__":
    run()
