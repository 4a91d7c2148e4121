"""Multi-task credit scoring (default, late payment, churn, spend) with gradient surgery."""
import random

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm

TASKS = ["default", "late", "churn", "spend"]


def customers(n=768, seed=4):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({
        "age": rng.integers(18, 80, n),
        "income": rng.lognormal(10, 0.5, n),
        "tenure": rng.exponential(4, n),
        "utilisation": rng.beta(2, 4, n),
        "n_cards": rng.poisson(2, n),
        "region_score": rng.normal(0, 1, n),
    })
    z = StandardScaler().fit_transform(df)
    w = rng.normal(0, 1, (z.shape[1], len(TASKS)))
    raw = z @ w + rng.normal(0, 0.5, (n, len(TASKS)))
    y = np.concatenate([(raw[:, :3] > 0.3).astype(np.float32), raw[:, 3:]], axis=1)
    return torch.tensor(z, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)


class SharedBottom(nn.Module):

    def __init__(self, n_in, width=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.towers = nn.ModuleDict({t: nn.Linear(width, 1) for t in TASKS})

    def forward(self, x):
        h = self.trunk(x)
        return {t: tower(h).squeeze(-1) for t, tower in self.towers.items()}


class PCGrad:
    """Yu et al. 2020. Wraps an optimizer; projects conflicting task gradients."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    @property
    def params(self):
        return [p for g in self.optimizer.param_groups for p in g["params"]]

    def zero_grad(self):
        self.optimizer.zero_grad(set_to_none=True)

    def step(self):
        self.optimizer.step()

    def pc_backward(self, losses):
        grads = [self._flat_grad(l) for l in losses]
        merged = torch.stack(self._project(grads)).sum(0)
        offset = 0
        for p in self.params:
            n = p.numel()
            p.grad = merged[offset:offset + n].view_as(p).clone()
            offset += n

    def _flat_grad(self, loss):
        gs = torch.autograd.grad(loss, self.params, retain_graph=True, allow_unused=True)
        return torch.cat([(torch.zeros_like(p) if g is None else g).reshape(-1) for p, g in zip(self.params, gs)])

    def _project(self, grads):
        out = []
        for g_i in [g.clone() for g in grads]:
            random.shuffle(grads)
            for g_j in grads:
                dot = torch.dot(g_i, g_j)
                g_i = g_i - dot.clamp(max=0) * g_j / g_j.pow(2).sum().clamp(min=1e-12)
            out.append(g_i)
        return out


def task_losses(pred, y):
    losses = []
    for k, t in enumerate(TASKS):
        if t == "spend":
            losses.append(F.smooth_l1_loss(pred[t], y[:, k]))
        else:
            losses.append(F.binary_cross_entropy_with_logits(pred[t], y[:, k]))
    return losses


def run(epochs=2, batch_size=64):
    random.seed(0)
    torch.manual_seed(0)
    device = xm.xla_device()
    x, y = customers()
    loader = DataLoader(TensorDataset(x, y), batch_size=batch_size, shuffle=True, drop_last=True)
    model = SharedBottom(x.shape[1]).to(device)
    opt = PCGrad(torch.optim.Adam(model.parameters(), lr=3e-3))
    for epoch in range(epochs):
        curve = []
        for xb, yb in loader:
            with torch_xla.step():
                xb, yb = xb.to(device), yb.to(device)
                opt.zero_grad()
                losses = task_losses(model(xb), yb)
                opt.pc_backward(losses)
                opt.step()
                curve.append(torch.stack(losses).detach())
        mean = np.mean([c.cpu().numpy() for c in curve], axis=0)
        print(f"epoch {epoch} " + " ".join(f"{t}={v:.3f}" for t, v in zip(TASKS, mean)))


if __name__ == "__main__":
    run()
