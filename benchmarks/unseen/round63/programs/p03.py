"""Card-fraud scoring: wide & deep tabular model, imbalanced labels, average
precision on the training stream as the headline number."""
import argparse
import dataclasses

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch_xla
from torchmetrics.classification import BinaryAveragePrecision
from torchmetrics.aggregation import MeanMetric

CATS = {"mcc": 30, "country": 12, "channel": 4, "hour": 24}
NUMS = ["amount", "velocity_1h", "velocity_24h", "merchant_age", "distance_km"]


@dataclasses.dataclass
class Config:
    batch: int = 64
    steps: int = 48
    lr: float = 3e-3
    emb: int = 6
    hidden: int = 32
    log_every: int = 3
    pos_weight: float = 6.0
    seed: int = 202


def synth(n, seed):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({
        "amount": rng.lognormal(3.0, 1.0, n),
        "velocity_1h": rng.poisson(0.8, n),
        "velocity_24h": rng.poisson(5.0, n),
        "merchant_age": rng.exponential(400, n),
        "distance_km": rng.gamma(1.2, 40, n),
    })
    for name, k in CATS.items():
        df[name] = rng.integers(0, k, n)
    score = (0.6 * np.log(df.amount) + 0.9 * df.velocity_1h + 0.01 * df.distance_km
             + 0.8 * (df.channel == 2) + 0.7 * (df.hour < 5) - 5.2)
    df["fraud"] = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(int)
    return df


class Transactions(torch.utils.data.Dataset):
    def __init__(self, df):
        x = np.log1p(df[NUMS].to_numpy(dtype=np.float32))
        self.x = torch.from_numpy((x - x.mean(0)) / (x.std(0) + 1e-6))
        self.c = torch.from_numpy(df[list(CATS)].to_numpy(dtype=np.int64))
        self.y = torch.from_numpy(df["fraud"].to_numpy(dtype=np.int64))

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.c[i], self.y[i]


class WideDeep(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.ModuleList(nn.Embedding(k, cfg.emb) for k in CATS.values())
        self.wide = nn.ModuleList(nn.Embedding(k, 1) for k in CATS.values())
        d = len(NUMS) + cfg.emb * len(CATS)
        self.deep = nn.Sequential(
            nn.Linear(d, cfg.hidden), nn.LayerNorm(cfg.hidden), nn.Mish(),
            nn.Linear(cfg.hidden, cfg.hidden), nn.LayerNorm(cfg.hidden), nn.Mish(),
            nn.Linear(cfg.hidden, 1))
        for w in self.wide:
            nn.init.zeros_(w.weight)

    def forward(self, x, c):
        cols = c.unbind(1)
        deep = torch.cat([x] + [e(k) for e, k in zip(self.emb, cols)], dim=1)
        wide = sum(w(k) for w, k in zip(self.wide, cols))
        return (self.deep(deep) + wide).squeeze(1)


class Monitor:
    def __init__(self, device):
        self.loss = MeanMetric(nan_strategy="disable").to(device)
        self.ap = BinaryAveragePrecision(validate_args=False).to(device)

    def update(self, loss, logits, target):
        self.loss.update(loss.detach())
        self.ap.update(logits.detach().sigmoid(), target)

    def report(self, step):
        return f"step {step:03d} loss {self.loss.compute().item():.4f} AP {self.ap.compute().item():.4f}"


def parse():
    p = argparse.ArgumentParser()
    for f in dataclasses.fields(Config):
        p.add_argument(f"--{f.name.replace('_', '-')}", type=f.type, default=f.default)
    return Config(**vars(p.parse_args()))


def main():
    cfg = parse()
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    ds = Transactions(synth(4096, cfg.seed))
    loader = torch.utils.data.DataLoader(ds, cfg.batch, shuffle=True, drop_last=True)
    model = WideDeep(cfg).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr, betas=(0.9, 0.99))
    crit = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(cfg.pos_weight, device=device))
    monitor = Monitor(device)

    step = 0
    for x, c, y in loader:
        x, c, y = x.to(device), c.to(device), y.to(device)
        opt.zero_grad()
        logits = model(x, c)
        loss = crit(logits, y.float())
        loss.backward()
        opt.step()
        monitor.update(loss, logits, y)
        torch_xla.sync()
        step += 1
        if step % cfg.log_every == 0:
            print(monitor.report(step))
        if step == cfg.steps:
            break


if __name__ == "__main__":
    main()
