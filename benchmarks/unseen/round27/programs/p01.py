"""Churn model on the monthly usage export.

The export is one large csv that does not fit into memory on the small boxes,
so it is streamed in chunks; one chunk is one batch.
"""
import io

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

CFG = dict(
    batch=48,
    n_rows=48 * 72,
    epochs=1,
    hidden=32,
    lr=3e-3,
    counts=["logins", "tickets", "age_days", "n_devices", "invoices"],
    amounts=["revenue", "usage_gb"],
    cat="plan",
    n_plans=6,
)


def write_export(cfg, seed=11):
    """Stand-in for the nightly warehouse dump."""
    rng = np.random.default_rng(seed)
    n = cfg["n_rows"]
    df = pd.DataFrame({
        "logins": rng.poisson(9, n),
        "tickets": rng.poisson(1.2, n),
        "age_days": rng.integers(3, 2000, n),
        "n_devices": rng.integers(1, 6, n),
        "invoices": rng.poisson(4, n),
        "revenue": rng.gamma(2.0, 12.0, n).round(2),
        "usage_gb": rng.gamma(1.5, 8.0, n).round(3),
        "plan": rng.integers(0, cfg["n_plans"], n),
    })
    score = 0.4 * df.tickets - 0.1 * df.logins - 0.0004 * df.age_days + rng.normal(0, 0.7, n)
    df["churned"] = (score > score.median()).astype(int)
    for col in cfg["counts"]:
        df[col] = df[col].astype(object)
        df.loc[rng.random(n) < 0.012, col] = None
    buf = io.StringIO()
    df.to_csv(buf, index=False)
    return buf.getvalue()


class ExportReader:
    def __init__(self, text, cfg):
        self.text, self.cfg = text, cfg

    def __iter__(self):
        frames = pd.read_csv(io.StringIO(self.text), chunksize=self.cfg["batch"])
        for frame in frames:
            cols = self.cfg["counts"] + self.cfg["amounts"]
            x = {c: torch.from_numpy(frame[c].to_numpy().copy()) for c in cols}
            plan = torch.from_numpy(frame[self.cfg["cat"]].to_numpy().copy())
            y = torch.from_numpy(frame["churned"].to_numpy().copy()).float()
            yield x, plan, y


class ChurnNet(nn.Module):
    def __init__(self, cfg, stats):
        super().__init__()
        self.cols = cfg["counts"] + cfg["amounts"]
        self.stats = stats
        self.plan = nn.Embedding(cfg["n_plans"], 4)
        self.body = nn.Sequential(
            nn.Linear(2 * len(self.cols) + 4, cfg["hidden"]), nn.ReLU(),
            nn.Linear(cfg["hidden"], cfg["hidden"]), nn.ReLU(),
            nn.Linear(cfg["hidden"], 1),
        )

    def forward(self, x, plan):
        feats = []
        for c in self.cols:
            mu, sd = self.stats[c]
            v = (x[c] - mu) / sd
            feats.append(torch.nan_to_num(v).float())
            feats.append(torch.isnan(v).float())
        z = torch.cat([torch.stack(feats, dim=1), self.plan(plan)], dim=1)
        return self.body(z).squeeze(1)


def main(cfg=CFG):
    torch.manual_seed(0)
    device = torch_xla.device()
    text = write_export(cfg)
    head = pd.read_csv(io.StringIO(text), nrows=500)
    stats = {c: (float(head[c].mean()), float(head[c].std())) for c in cfg["counts"] + cfg["amounts"]}

    model = ChurnNet(cfg, stats).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg["lr"])
    bce = nn.BCEWithLogitsLoss()
    reader = ExportReader(text, cfg)
    for epoch in range(cfg["epochs"]):
        running = torch.zeros((), device=device)
        for step, (x, plan, y) in enumerate(reader):
            x = {k: v.to(device) for k, v in x.items()}
            opt.zero_grad()
            loss = bce(model(x, plan.to(device)), y.to(device))
            loss.backward()
            opt.step()
            running = running + loss.detach()
            xm.mark_step()
            if (step + 1) % 24 == 0:
                print(f"epoch {epoch} step {step + 1} loss {running.item() / (step + 1):.4f}")


if __name__ == "__main__":
    main()
