"""Churn model trained straight from a (large) CSV export, read chunk by chunk."""
import io

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CHUNK = 64
STEPS = 40
NUMERIC = ["age", "tenure_months", "n_tickets", "n_devices", "plan_price", "last_login_days", "n_referrals"]
CATEGORICAL = {"region": 6, "channel": 4}


def make_export(rows, seed=7):
    """What the warehouse would give us: integers, prices, and a few holes in some columns."""
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({
        "customer": np.arange(rows) + 100_000,
        "age": rng.integers(18, 80, rows),
        "tenure_months": rng.integers(0, 90, rows),
        "n_tickets": rng.poisson(1.5, rows),
        "n_devices": rng.integers(1, 6, rows),
        "plan_price": rng.choice([9.9, 19.9, 34.5], rows),
        "last_login_days": rng.integers(0, 60, rows),
        "n_referrals": rng.poisson(0.4, rows),
        "region": rng.integers(0, 6, rows),
        "channel": rng.integers(0, 4, rows),
    })
    risk = 0.04 * df.last_login_days + 0.4 * df.n_tickets - 0.03 * df.tenure_months
    df["churned"] = (risk + rng.normal(0, 0.7, rows) > risk.median()).astype(int)
    holes = {"age": 0.012, "tenure_months": 0.004, "n_devices": 0.01, "last_login_days": 0.015, "n_referrals": 0.008}
    for col, frac in holes.items():
        df[col] = df[col].astype("Int64").mask(rng.random(rows) < frac)
    buf = io.StringIO()
    df.to_csv(buf, index=False)
    buf.seek(0)
    return buf


class ChunkedCsv:
    def __init__(self, handle, device):
        self.reader = pd.read_csv(handle, chunksize=CHUNK, index_col="customer")
        self.device = device

    def __iter__(self):
        for chunk in self.reader:
            if len(chunk) < CHUNK:
                break
            yield {name: torch.from_numpy(chunk[name].to_numpy(copy=True)).to(self.device)
                   for name in chunk.columns}


class RunningNorm(nn.Module):
    """Normalises a column by running moments; holes become the column mean."""

    def __init__(self, n, momentum=0.05):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("var", torch.ones(n))

    def forward(self, x, missing):
        present = 1.0 - missing
        count = present.sum(0).clamp(min=1.0)
        if self.training:
            mu = (x * present).sum(0) / count
            var = ((x - mu) ** 2 * present).sum(0) / count
            self.mean.lerp_(mu.detach(), self.momentum)
            self.var.lerp_(var.detach(), self.momentum)
        return (x - self.mean) * torch.rsqrt(self.var + 1e-5) * present


class ChurnNet(nn.Module):
    def __init__(self, hidden=32, emb=4):
        super().__init__()
        n = len(NUMERIC)
        self.norm = RunningNorm(n)
        self.emb = nn.ModuleDict({k: nn.Embedding(v, emb) for k, v in CATEGORICAL.items()})
        self.body = nn.Sequential(nn.Linear(2 * n + emb * len(CATEGORICAL), hidden), nn.SiLU(), nn.Dropout(0.1),
                                  nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, batch):
        cols = [batch[name].float() for name in NUMERIC]
        x = torch.stack(cols, dim=1)
        missing = torch.isnan(x).float()
        x = self.norm(torch.nan_to_num(x), missing)
        cats = [layer(batch[name]) for name, layer in self.emb.items()]
        return self.body(torch.cat([x, missing] + cats, dim=1)).squeeze(1)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = ChurnNet().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    running = torch.zeros((), device=device)

    data = ChunkedCsv(make_export(CHUNK * STEPS + 10), device)
    for step, batch in enumerate(data, 1):
        logits = model(batch)
        target = batch["churned"].float()
        loss = F.binary_cross_entropy_with_logits(logits, target)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        sched.step()
        running = running + loss.detach()
        torch_xla.sync()

        if step % 10 == 0:
            print(f"chunk {step}: mean loss {running.item() / 10:.4f} lr {sched.get_last_lr()[0]:.2e}")
            running = torch.zeros((), device=device)


if __name__ == "__main__":
    main()
