"""Multi-task property prediction on tabular molecular descriptors (shared trunk, one head per assay)."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

TASKS = {
    "solubility": {"kind": "regression", "weight": 1.0},
    "logp": {"kind": "regression", "weight": 0.7},
    "toxicity": {"kind": "binary", "weight": 1.5},
    "permeability": {"kind": "binary", "weight": 0.8},
}


class Trunk(nn.Module):
    def __init__(self, n_features, hidden, depth):
        super().__init__()
        dims = [n_features] + [hidden] * depth
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims[:-1], dims[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in range(depth))

    def forward(self, x):
        for lin, norm in zip(self.layers, self.norms):
            x = F.silu(norm(lin(x)))
        return x


class MultiTaskNet(nn.Module):
    def __init__(self, n_features=24, hidden=48, depth=3):
        super().__init__()
        self.trunk = Trunk(n_features, hidden, depth)
        self.heads = nn.ModuleDict({
            name: nn.Sequential(nn.Linear(hidden, 16), nn.ReLU(), nn.Linear(16, 1)) for name in TASKS})

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h).squeeze(-1) for name, head in self.heads.items()}


class AssayTable:
    """In-memory table: descriptors and one column per assay."""

    def __init__(self, n=384, n_features=24, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(n, n_features, generator=g)
        w = torch.randn(n_features, len(TASKS), generator=g) / n_features ** 0.5
        raw = torch.tanh(self.x) @ w + 0.05 * torch.randn(n, len(TASKS), generator=g)
        self.y = {}
        for i, (name, spec) in enumerate(TASKS.items()):
            self.y[name] = raw[:, i] if spec["kind"] == "regression" else (raw[:, i] > 0).float()

    def batches(self, batch_size):
        order = torch.randperm(len(self.x))
        for start in range(0, len(order) - batch_size + 1, batch_size):
            idx = order[start:start + batch_size]
            yield self.x[idx], {k: v[idx] for k, v in self.y.items()}


class Trainer:
    def __init__(self, model, device, lr=3e-3):
        self.device = device
        self.model = model.to(device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.task_order = list(TASKS)
        self.step_count = 0

    def task_loss(self, name, pred, target):
        if TASKS[name]["kind"] == "binary":
            return F.binary_cross_entropy_with_logits(pred, target)
        return F.smooth_l1_loss(pred, target)

    def training_step(self, x, y):
        self.opt.zero_grad()
        preds = self.model(x)
        random.shuffle(self.task_order)
        total = torch.zeros((), device=self.device)
        parts = {}
        for name in self.task_order:
            parts[name] = self.task_loss(name, preds[name], y[name])
            total = total + TASKS[name]["weight"] * parts[name]
        total.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.opt.step()
        return total.detach(), {k: v.detach() for k, v in parts.items()}

    def fit(self, table, epochs, batch_size):
        for epoch in range(epochs):
            for x, y in table.batches(batch_size):
                x = x.to(self.device)
                y = {k: v.to(self.device) for k, v in y.items()}
                total, parts = self.training_step(x, y)
                xm.mark_step()
                self.step_count += 1
            detail = " ".join(f"{k} {parts[k].item():.3f}" for k in TASKS)
            print(f"epoch {epoch} step {self.step_count} total {total.item():.3f} | {detail}")


if __name__ == "__main__":
    random.seed(11)
    torch.manual_seed(11)
    Trainer(MultiTaskNet(), torch_xla.device()).fit(AssayTable(), epochs=3, batch_size=64)
