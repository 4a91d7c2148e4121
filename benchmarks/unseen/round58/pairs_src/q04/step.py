import math

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CATS = {"plan": 5, "region": 12, "channel": 4}
NUMS = ["age", "income", "tenure", "visits"]
N_BINS = 10


def make_frame(n=192, seed=0):
    r = np.random.default_rng(seed)
    df = pd.DataFrame({c: r.integers(0, k, n) for c, k in CATS.items()})
    for c in NUMS:
        df[c] = r.normal(size=n)
    df["time"] = r.integers(0, N_BINS, n)
    df["event"] = r.random(n) < 0.6
    return df


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class SurvivalNet(nn.Module):
    """Discrete-time hazards (Nnet-survival) over embeddings and numeric columns."""

    def __init__(self, dim=24):
        super().__init__()
        self.emb = nn.ModuleDict({c: nn.Embedding(k, 8) for c, k in CATS.items()})
        self.inp = nn.Linear(8 * len(CATS) + len(NUMS), dim)
        self.blocks = nn.ModuleList([Block(dim) for _ in range(2)])
        self.hazard = nn.Linear(dim, N_BINS)

    def forward(self, cats, nums):
        x = torch.cat([self.emb[c](cats[:, i]) for i, c in enumerate(CATS)] + [nums], 1)
        x = self.inp(x)
        for b in self.blocks:
            x = b(x)
        return self.hazard(x)


def hazard_nll(logits, time, event):
    bins = torch.arange(N_BINS, device=logits.device)
    at_risk = (bins[None] <= time[:, None]).float()
    died = (bins[None] == time[:, None]).float() * event[:, None]
    bce = F.binary_cross_entropy_with_logits(logits, died, reduction="none")
    return (bce * at_risk).sum(1).mean()


def cosine(step, total, peak, floor):
    t = min(step, total) / total
    return max(floor, peak * 0.5 * (1 + math.cos(math.pi * t)))


class Fit:
    def __init__(self, model, device, total, floor=2e-3):
        self.model, self.device, self.total, self.floor = model.to(device), device, total, floor
        groups = [
            {"params": model.emb.parameters(), "peak": 0.08},
            {"params": [p for n, p in model.named_parameters() if not n.startswith("emb.")], "peak": 0.02},
        ]
        self.opt = torch.optim.SGD(groups, lr=floor, momentum=0.9, nesterov=True)
        self.n = 0

    def set_lr(self):
        for g in self.opt.param_groups:
            g["lr"] = cosine(self.n, self.total, g["peak"], self.floor)

    def batch(self, df):
        cats = torch.as_tensor(df[list(CATS)].to_numpy(np.int64))
        nums = torch.as_tensor(df[NUMS].to_numpy(np.float32))
        time = torch.as_tensor(df["time"].to_numpy(np.int64))
        event = torch.as_tensor(df["event"].to_numpy(np.float32))
        return [t.to(self.device) for t in (cats, nums, time, event)]

    def step(self, df):
        self.set_lr()
        cats, nums, time, event = self.batch(df)
        self.opt.zero_grad()
        loss = hazard_nll(self.model(cats, nums), time, event)
        loss.backward()
        nn.utils.clip_grad_value_(self.model.parameters(), 5.0)
        self.opt.step()
        torch_xla.sync()
        self.n += 1


def main():
    torch.manual_seed(0)
    df = make_frame()
    fit = Fit(SurvivalNet(), torch_xla.device(), total=6)
    for epoch in range(3):
        order = df.sample(frac=1.0, random_state=epoch)
        for i in range(0, len(order), 64):
            fit.step(order.iloc[i:i + 64])


if __name__ == "__main__":
    main()
