"""Tabular regression with gradual magnitude pruning (cubic sparsity schedule)."""
from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn
import torch_xla
import torch_xla.core.xla_model as xm

HP = {
    "rows": 1500,
    "hidden": [40, 24],
    "batch_size": 50,
    "epochs": 2,
    "lr": 4e-3,
    "prune": {"begin": 4, "end": 50, "every": 2, "final": 0.85},
}


def load_table(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({
        "age": rng.integers(18, 80, rows),
        "income": rng.lognormal(10, 0.5, rows),
        "tenure": rng.exponential(4, rows),
        "region": rng.choice(list("nsew"), rows),
        "plan": rng.choice(["basic", "plus", "pro"], rows, p=[0.5, 0.3, 0.2]),
    })
    y = (0.02 * df.age + np.log(df.income) * (df.plan == "pro") + 0.3 * np.sqrt(df.tenure)
         + (df.region == "n") * 1.5 + 0.2 * rng.standard_normal(rows)).to_numpy(dtype=np.float32)
    num = StandardScaler().fit_transform(df[["age", "income", "tenure"]].astype(float).to_numpy())
    cat = OneHotEncoder(sparse_output=False).fit_transform(df[["region", "plan"]].astype(object).to_numpy())
    x = np.concatenate([num, cat], axis=1).astype(np.float32)
    return x, ((y - y.mean()) / y.std())[:, None]


class Net(nn.Module):
    def __init__(self, d_in: int, hidden: list[int]):
        super().__init__()
        dims = [d_in, *hidden]
        self.body = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims[:-1], dims[1:]))
        self.out = nn.Linear(dims[-1], 1)

    def forward(self, x):
        for layer in self.body:
            x = nn.functional.gelu(layer(x))
        return self.out(x)


class GradualPruner:
    """Zhu & Gupta (2017): raise sparsity from 0 to `final` between two steps."""

    def __init__(self, layers, begin, end, every, final):
        self.weights = [l.weight for l in layers]
        self.masks = [torch.ones_like(w) for w in self.weights]
        self.begin, self.end, self.every, self.final = begin, end, every, final

    def sparsity(self, step: int) -> float:
        f = (step - self.begin) / (self.end - self.begin)
        f = min(max(f, 0.0), 1.0)
        return self.final * (1.0 - (1.0 - f) ** 3)

    @torch.no_grad()
    def update_masks(self, step: int):
        for i, w in enumerate(self.weights):
            k = int(self.sparsity(step) * w.numel())
            if k == 0:
                continue
            magnitude = w.abs().flatten()
            threshold = magnitude.kthvalue(k).values
            self.masks[i] = (w.abs() > threshold).to(w.dtype)

    @torch.no_grad()
    def apply(self):
        for w, m in zip(self.weights, self.masks):
            w.mul_(m)

    def step(self, step: int):
        if self.begin < step <= self.end and step % self.every == 0:
            self.update_masks(step)
        self.apply()


def fit(hp):
    torch.manual_seed(0)
    device = torch_xla.device()
    x, y = load_table(hp["rows"])
    x, y = torch.from_numpy(x), torch.from_numpy(y)
    net = Net(x.shape[1], hp["hidden"]).to(device)
    opt = torch.optim.RMSprop(net.parameters(), lr=hp["lr"])
    pruner = GradualPruner(net.body, **hp["prune"])
    xm.mark_step()

    step = 0
    for epoch in range(hp["epochs"]):
        order = torch.randperm(len(x))
        for chunk in order.split(hp["batch_size"]):
            xb, yb = x[chunk].to(device), y[chunk].to(device)
            opt.zero_grad()
            loss = nn.functional.mse_loss(net(xb), yb)
            loss.backward()
            xm.optimizer_step(opt)
            step += 1
            pruner.step(step)
            xm.mark_step()
            if step % 10 == 0:
                left = sum(int(m.cpu().sum()) for m in pruner.masks)
                print(f"epoch {epoch} step {step} mse {loss.item():.4f} weights left {left}")


if __name__ == "__main__":
    fit(HP)
