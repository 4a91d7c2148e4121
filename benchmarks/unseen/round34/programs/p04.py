"""Credit-default scoring from monthly extracts, read chunk by chunk with pandas."""
import io

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NUMERIC = ["age", "months_on_book", "open_lines", "late_30d", "late_90d", "dependents",
           "inquiries"]
CATEGORICAL = {"region": 8, "product": 5, "channel": 3}
CHUNK = 48


def synthetic_extract(rows, seed):
    """One CSV as the warehouse exports it: empty cells where nothing was reported."""
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({
        "age": rng.integers(18, 80, rows),
        "months_on_book": rng.integers(0, 240, rows),
        "open_lines": rng.integers(0, 20, rows),
        "late_30d": rng.poisson(0.7, rows),
        "late_90d": rng.poisson(0.2, rows),
        "dependents": rng.integers(0, 5, rows),
        "inquiries": rng.poisson(1.5, rows),
    })
    for name, card in CATEGORICAL.items():
        df[name] = rng.integers(0, card, rows)
    z = -1.5 + 0.8 * df.late_90d + 0.4 * df.late_30d - 0.01 * df.age + 0.1 * df.inquiries
    df["default"] = (rng.random(rows) < 1 / (1 + np.exp(-z))).astype(int)
    for name, rate in [("dependents", 0.012), ("inquiries", 0.012), ("open_lines", 0.01),
                       ("months_on_book", 0.015)]:
        df[name] = df[name].astype("Int64").mask(rng.random(rows) < rate)
    return df.to_csv(index=False)


class ScoreNet(nn.Module):
    def __init__(self, dim=6, hidden=32):
        super().__init__()
        self.embed = nn.ModuleDict({k: nn.Embedding(n, dim) for k, n in CATEGORICAL.items()})
        width = 2 * len(NUMERIC) + dim * len(CATEGORICAL)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Dropout(0.1),
                                 nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 1))
        self.register_buffer("mean", torch.zeros(len(NUMERIC)))
        self.register_buffer("std", torch.ones(len(NUMERIC)))

    def forward(self, batch):
        cols = torch.stack([batch[c].float() for c in NUMERIC], dim=1)
        missing = torch.isnan(cols)
        cols = (torch.nan_to_num(cols) - self.mean) / self.std
        cols = torch.where(missing, torch.zeros_like(cols), cols)
        emb = [self.embed[k](batch[k]) for k in CATEGORICAL]
        return self.mlp(torch.cat([cols, missing.float(), *emb], dim=1)).squeeze(1)


def fit_scaler(model, frame):
    stats = frame[NUMERIC].astype("float64")
    model.mean.copy_(torch.from_numpy(stats.mean().to_numpy(dtype=np.float32)))
    model.std.copy_(torch.from_numpy(stats.std().to_numpy(dtype=np.float32)).clamp(min=1e-3))


def batches(csv_text):
    for chunk in pd.read_csv(io.StringIO(csv_text), chunksize=CHUNK):
        if len(chunk) < CHUNK:
            break
        batch = {c: torch.tensor(chunk[c].to_numpy()) for c in NUMERIC}
        batch.update({c: torch.tensor(chunk[c].to_numpy()) for c in CATEGORICAL})
        yield batch, torch.tensor(chunk["default"].to_numpy(), dtype=torch.float32)


def to_device(batch, device):
    return {k: v.to(device) for k, v in batch.items()}


def evaluate(model, csv_text, device):
    model.eval()
    scores, truth = [], []
    with torch.no_grad():
        for batch, label in batches(csv_text):
            out = torch.sigmoid(model(to_device(batch, device)))
            torch_xla.sync()
            scores.append(out.cpu().numpy())
            truth.append(label.numpy())
    model.train()
    s, y = np.concatenate(scores), np.concatenate(truth)
    order = s.argsort().argsort() + 1
    n1 = y.sum()
    return (order[y == 1].sum() - n1 * (n1 + 1) / 2) / (n1 * (len(y) - n1))


def main(months=4, rows=CHUNK * 12):
    torch.manual_seed(5)
    device = torch_xla.device()
    extracts = [synthetic_extract(rows, seed=100 + m) for m in range(months)]
    model = ScoreNet()
    fit_scaler(model, pd.read_csv(io.StringIO(extracts[0])))
    model.to(device).train()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)

    step = 0
    for month, text in enumerate(extracts[:-1]):
        total = torch.zeros((), device=device)
        n = 0
        for batch, label in batches(text):
            opt.zero_grad()
            logit = model(to_device(batch, device))
            loss = F.binary_cross_entropy_with_logits(
                logit, label.to(device), pos_weight=torch.tensor(3.0, device=device))
            loss.backward()
            xm.optimizer_step(opt, barrier=True)
            total += loss.detach()
            n += 1
            step += 1
        print(f"month {month} step {step} loss {total.item() / n:.4f}")
    print(f"hold-out auc {evaluate(model, extracts[-1], device):.3f}")


if __name__ == "__main__":
    main()
