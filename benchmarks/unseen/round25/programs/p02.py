import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from sklearn.datasets import make_classification
from sklearn.preprocessing import StandardScaler


def load_data(n=2048, seed=3):
    X, y = make_classification(n_samples=n, n_features=24, n_informative=12,
                               n_classes=4, n_clusters_per_class=1, random_state=seed)
    X = StandardScaler().fit_transform(X).astype(np.float32)
    cut = n - 512
    return (X[:cut], y[:cut]), (X[cut:], y[cut:])


def build_mlp(sizes):
    layers = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        layers.append(nn.Linear(a, b))
        if i < len(sizes) - 2:
            layers.append(nn.GELU())
    return nn.Sequential(*layers)


class GradualPruner:
    """Cubic sparsity schedule from "To prune, or not to prune" (Zhu & Gupta 2017)."""

    def __init__(self, model, begin, end, every, final, initial=0.05):
        self.begin, self.end, self.every = begin, end, every
        self.initial, self.final = initial, final
        self.layers = [m for m in model if isinstance(m, nn.Linear)][:-1]
        self.masks = [torch.ones_like(l.weight) for l in self.layers]

    def target(self, step):
        frac = min(1.0, (step - self.begin) / (self.end - self.begin))
        return self.final + (self.initial - self.final) * (1 - frac) ** 3

    def due(self, step):
        return self.begin <= step <= self.end and (step - self.begin) % self.every == 0

    @torch.no_grad()
    def update(self, step):
        s = self.target(step)
        for i, layer in enumerate(self.layers):
            score = layer.weight.abs().flatten()
            k = max(1, int(s * score.numel()))
            cutoff = torch.kthvalue(score, k).values
            self.masks[i] = (layer.weight.abs() > cutoff).to(layer.weight.dtype)

    @torch.no_grad()
    def apply(self):
        for layer, mask in zip(self.layers, self.masks):
            layer.weight.mul_(mask)


def evaluate(model, X, y):
    model.eval()
    with torch.no_grad():
        hits = (model(X).argmax(1) == y).float().mean()
    torch_xla.sync()
    model.train()
    return hits.item()


def sparsity(pruner):
    zeros = sum((m == 0).sum().cpu().item() for m in pruner.masks)
    return zeros / sum(m.numel() for m in pruner.masks)


def main():
    torch.manual_seed(0)
    dev = xm.xla_device()
    (Xtr, ytr), (Xva, yva) = load_data()
    Xva, yva = torch.from_numpy(Xva).to(dev), torch.from_numpy(yva).to(dev)

    model = build_mlp([24, 64, 48, 4]).to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-3)
    pruner = GradualPruner(model, begin=20, end=200, every=15, final=0.85)

    rng = np.random.default_rng(0)
    total, bs = 220, 64
    for step in range(1, total + 1):
        idx = rng.integers(0, len(Xtr), size=bs)
        xb = torch.from_numpy(Xtr[idx]).to(dev)
        yb = torch.from_numpy(ytr[idx]).to(dev)

        loss = F.cross_entropy(model(xb), yb, label_smoothing=0.05)
        opt.zero_grad()
        loss.backward()
        opt.step()

        if pruner.due(step):
            pruner.update(step)
        pruner.apply()
        xm.mark_step()

        if step % 55 == 0:
            acc = evaluate(model, Xva, yva)
            print(f"step {step:4d} loss {loss.item():.3f} acc {acc:.3f} sparsity {sparsity(pruner):.2f}")


if __name__ == "__main__":
    main()
