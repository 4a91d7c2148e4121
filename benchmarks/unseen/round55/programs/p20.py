"""Shared-trunk tabular network for several targets, trained with gradient projection between tasks."""
import os
import random

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

TARGETS = {"default": "binary", "amount": "real", "delay": "real", "churn": "binary", "limit": "real"}
CATS = {"region": 7, "product": 5}
NUMS = ["age", "income", "tenure", "balance"]


def make_table(n, seed):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({
        "age": rng.uniform(18, 80, n), "income": rng.lognormal(10, 0.5, n),
        "tenure": rng.exponential(4, n), "balance": rng.normal(0, 2000, n),
        "region": rng.integers(0, 7, n), "product": rng.integers(0, 5, n),
    })
    num = (df[NUMS] - df[NUMS].mean()) / df[NUMS].std()
    df[NUMS] = num
    risk = 0.8 * num["balance"] - 0.6 * num["income"] + 0.3 * (df["region"] == 2)
    df["default"] = (risk + rng.logistic(0, 0.5, n) > 0.4).astype(float)
    df["amount"] = num["income"] + 0.5 * df["product"] / 5 + rng.normal(0, 0.2, n)
    df["delay"] = 0.7 * risk - 0.2 * num["tenure"] + rng.normal(0, 0.2, n)
    df["churn"] = (-num["tenure"] + 0.4 * num["age"] + rng.logistic(0, 0.5, n) > 0.5).astype(float)
    df["limit"] = num["income"] * 0.5 - 0.5 * risk + rng.normal(0, 0.2, n)
    return df


class Trunk(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.emb = nn.ModuleDict({c: nn.Embedding(k, 4) for c, k in CATS.items()})
        d = len(NUMS) + 4 * len(CATS)
        self.net = nn.Sequential(nn.Linear(d, hidden), nn.SiLU(), nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.SiLU())

    def forward(self, num, cat):
        e = [self.emb[c](cat[:, i]) for i, c in enumerate(CATS)]
        return self.net(torch.cat([num] + e, 1))


class MultiTask(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.trunk = Trunk(hidden)
        self.heads = nn.ModuleDict({f"h_{t}": nn.Linear(hidden, 1) for t in TARGETS})

    def forward(self, num, cat, y):
        h = self.trunk(num, cat)
        out = {}
        for i, (t, kind) in enumerate(TARGETS.items()):
            p = self.heads[f"h_{t}"](h).squeeze(1)
            out[t] = F.binary_cross_entropy_with_logits(p, y[:, i]) if kind == "binary" else F.smooth_l1_loss(p, y[:, i])
        return out


class ProjectedOptimizer:
    """Gradient surgery: each task's gradient loses what conflicts with the other tasks' gradients."""

    def __init__(self, opt, shared):
        self.opt, self.shared = opt, list(shared)

    def _task_gradients(self, losses):
        grads = []
        for loss in losses:
            g = torch.autograd.grad(loss, self.shared, retain_graph=True)
            grads.append(torch.cat([x.reshape(-1) for x in g]))
        return grads

    def _project(self, grads):
        projected = []
        for g in grads:
            others = list(grads)
            random.shuffle(others)
            g = g.clone()
            for o in others:
                dot = torch.dot(g, o).clamp(max=0.0)
                g = g - dot / (o.pow(2).sum() + 1e-12) * o
            projected.append(g)
        return torch.stack(projected).mean(0)

    def step(self, losses, heads):
        self.opt.zero_grad(set_to_none=True)
        merged = self._project(self._task_gradients(losses))
        head_params = list(heads.parameters())
        for p, g in zip(head_params, torch.autograd.grad(sum(losses), head_params)):
            p.grad = g
        at = 0
        for p in self.shared:
            p.grad = merged[at:at + p.numel()].view_as(p)
            at += p.numel()
        self.opt.step()


def batches(df, bs, rng):
    order = rng.permutation(len(df))
    num = df[NUMS].to_numpy(np.float32)
    cat = df[list(CATS)].to_numpy(np.int64)
    y = df[list(TARGETS)].to_numpy(np.float32)
    for s in range(0, len(order) - bs + 1, bs):
        j = order[s:s + bs]
        yield torch.from_numpy(num[j]), torch.from_numpy(cat[j]), torch.from_numpy(y[j])


def main(epochs=2, bs=64):
    random.seed(2)
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    device = torch_xla.device()
    table = make_table(640, seed=2)
    model = MultiTask().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    surgeon = ProjectedOptimizer(opt, model.trunk.parameters())

    for epoch in range(epochs):
        meter = {t: torch.zeros((), device=device) for t in TARGETS}
        for num, cat, y in batches(table, bs, rng):
            losses = model(num.to(device), cat.to(device), y.to(device))
            surgeon.step(list(losses.values()), model.heads)
            for t, v in losses.items():
                meter[t] += v.detach()
            torch_xla.sync()
        print(f"epoch {epoch} " + " ".join(f"{t} {v.item() / 10:.3f}" for t, v in meter.items()))


if __name__ == "__main__":
    main()
