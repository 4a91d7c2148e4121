"""Conversion model for ad impressions, streamed from a CSV export in chunks."""
import io

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NUMERIC = ["impressions", "dwell_ms", "basket", "days_since"]
HASHED = ["campaign", "publisher"]
BUCKETS = 64
CHUNK = 64
ROWS = CHUNK * 56


def export_csv(rows, seed):
    """What the warehouse would hand over: heavy-tailed counters, some of them missing."""
    rng = np.random.default_rng(seed)
    burst = np.repeat(rng.random(rows // CHUNK), CHUNK)
    df = pd.DataFrame({
        "impressions": (rng.pareto(1.6, rows) * 6).astype(int).clip(0, 30000) + 1,
        "dwell_ms": np.where(burst > 0.6, rng.exponential(9000, rows), rng.exponential(3000, rows)).astype(int).clip(0, 60000),
        "basket": rng.poisson(3, rows) + (rng.random(rows) < 0.01) * 150,
        "days_since": rng.integers(0, 90, rows).astype(float),
        "campaign": rng.integers(0, 200, rows),
        "publisher": rng.integers(0, 900, rows),
    })
    df.loc[rng.random(rows) < 0.012, "days_since"] = np.nan
    score = 0.4 * np.log1p(df.basket) - 0.3 * np.log1p(df.impressions) + (df.campaign % 7 == 0) * 1.5
    df["converted"] = (rng.random(rows) < 1 / (1 + np.exp(-score + 0.5))).astype(int)
    buf = io.StringIO()
    df.to_csv(buf, index=False)
    buf.seek(0)
    return buf


class ChunkReader:
    """Iterates over the export without ever holding all of it."""

    def __init__(self, handle, chunk):
        self.handle, self.chunk = handle, chunk

    @staticmethod
    def compact(frame):
        for col in NUMERIC + HASHED:
            frame[col] = pd.to_numeric(frame[col], downcast="integer")
        return frame

    def __iter__(self):
        for frame in pd.read_csv(self.handle, chunksize=self.chunk):
            if len(frame) < self.chunk:
                continue
            frame = self.compact(frame)
            numeric = {c: torch.from_numpy(frame[c].to_numpy().copy()) for c in NUMERIC}
            ids = np.stack([(frame[c].astype("int64") * 2654435761 % BUCKETS).to_numpy() for c in HASHED], 1)
            yield numeric, torch.from_numpy(ids), torch.from_numpy(frame["converted"].to_numpy(np.float32))


class Featurizer(nn.Module):
    """log scaling and a missing-value flag, computed where the model lives."""

    def forward(self, columns):
        feats = []
        for name in NUMERIC:
            v = columns[name].float()
            missing = torch.isnan(v)
            v = torch.where(missing, torch.zeros_like(v), v)
            feats += [torch.log1p(v) / 4.0, missing.float()]
        return torch.stack(feats, dim=1)


class WideDeep(nn.Module):
    def __init__(self, dim=8, width=32):
        super().__init__()
        self.features = Featurizer()
        self.emb = nn.ModuleList(nn.Embedding(BUCKETS, dim) for _ in HASHED)
        self.wide = nn.ModuleList(nn.Embedding(BUCKETS, 1) for _ in HASHED)
        self.deep = nn.Sequential(
            nn.Linear(2 * len(NUMERIC) + dim * len(HASHED), width), nn.ReLU(),
            nn.Dropout(0.1), nn.Linear(width, 1),
        )
        for table in (*self.emb, *self.wide):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, columns, ids):
        dense = [self.features(columns)] + [e(ids[:, i]) for i, e in enumerate(self.emb)]
        linear = sum(w(ids[:, i]) for i, w in enumerate(self.wide))
        return (self.deep(torch.cat(dense, dim=1)) + linear).squeeze(-1)


def progressive_validation(logits, y, state):
    state["hits"] += ((logits > 0) == (y > 0.5)).float().sum()
    state["ll"] += F.binary_cross_entropy_with_logits(logits, y, reduction="sum")
    return state


def main():
    torch.manual_seed(2)
    device = torch_xla.device()
    model = WideDeep().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.03)
    state = {k: torch.zeros((), device=device) for k in ("hits", "ll")}
    xm.mark_step()

    model.train()
    for n, (numeric, ids, y) in enumerate(ChunkReader(export_csv(ROWS, 4), CHUNK), start=1):
        columns = {k: v.to(device) for k, v in numeric.items()}
        ids, y = ids.to(device), y.to(device)
        logits = model(columns, ids)
        loss = F.binary_cross_entropy_with_logits(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            progressive_validation(logits.detach(), y, state)
        xm.mark_step()
        if n % 14 == 0:
            rows = n * CHUNK
            print(f"{rows:5d} rows  accuracy {state['hits'].item() / rows:.3f}  log loss {state['ll'].item() / rows:.4f}")


if __name__ == "__main__":
    main()
