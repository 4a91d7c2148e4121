"""Odour prediction for small molecules: message passing on packed molecular graphs, multi-label focal loss.

The molecules of a batch share one node table with a fixed budget; the adjacency is block diagonal.
"""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

ODOURS = ("fruity", "green", "woody", "sulfurous", "musky")
ELEMENTS = ("C", "N", "O", "S", "Cl")
MIN_ATOMS, MAX_ATOMS = 5, 14


def molecule(rng):
    """A random tree of heavy atoms with an occasional ring closure; odours follow from elements and size."""
    n = int(rng.integers(MIN_ATOMS, MAX_ATOMS + 1))
    element = rng.choice(len(ELEMENTS), n, p=(0.7, 0.08, 0.12, 0.06, 0.04))
    adj = np.zeros((n, n), np.float32)
    for i in range(1, n):
        j = int(rng.integers(max(0, i - 3), i))
        adj[i, j] = adj[j, i] = 1.0
    ring = n > 6 and rng.random() < 0.5
    if ring:
        adj[0, 5] = adj[5, 0] = 1.0
    count = np.bincount(element, minlength=len(ELEMENTS))
    odour = np.array([
        count[2] >= 2, count[2] == 1 and not ring, ring and n > 9, count[3] > 0, n > 12 and count[1] == 0,
    ], np.float32)
    flip = rng.random(len(ODOURS)) < 0.02
    return element, adj, np.abs(odour - flip)


class PackedMolecules:
    def __init__(self, n, per_batch, seed):
        self.rng = np.random.default_rng(seed)
        self.molecules = [molecule(self.rng) for _ in range(n)]
        self.per_batch = per_batch
        self.budget = per_batch * MAX_ATOMS

    def draw(self):
        picks = [self.molecules[i] for i in self.rng.choice(len(self.molecules), self.per_batch, replace=False)]
        element = np.zeros(self.budget, np.int64)
        adj = np.zeros((self.budget, self.budget), np.float32)
        sizes, start = [], 0
        for kinds, bonds, _ in picks:
            stop = start + len(kinds)
            element[start:stop] = kinds
            adj[start:stop, start:stop] = bonds
            sizes.append(len(kinds))
            start = stop
        degree = adj.sum(1, keepdims=True)
        adj /= np.maximum(degree, 1.0)
        odour = np.stack([p[2] for p in picks])
        return torch.from_numpy(element), torch.from_numpy(adj), sizes, torch.from_numpy(odour)


class MessageLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.own, self.neighbour = nn.Linear(dim, dim), nn.Linear(dim, dim, bias=False)
        self.norm = nn.LayerNorm(dim)

    def forward(self, h, adj):
        return h + F.silu(self.norm(self.own(h) + self.neighbour(adj @ h)))


class OdourNet(nn.Module):
    def __init__(self, dim=32, depth=2):
        super().__init__()
        self.atom = nn.Embedding(len(ELEMENTS), dim)
        self.layers = nn.ModuleList(MessageLayer(dim) for _ in range(depth))
        self.readout = nn.Sequential(nn.Linear(2 * dim, dim), nn.SiLU(), nn.Linear(dim, len(ODOURS)))

    def forward(self, element, adj, sizes):
        h = self.atom(element)
        for layer in self.layers:
            h = layer(h, adj)
        padding = h.shape[0] - sum(sizes)
        parts = torch.split(h, sizes + [padding])[:-1]
        pooled = torch.stack([torch.cat([p.mean(0), p.amax(0)]) for p in parts])
        return self.readout(pooled)


class FocalLoss(nn.Module):
    """Focal binary cross-entropy (Lin et al. 2017), averaged over molecules and odours."""

    def __init__(self, gamma_max=2.0, warmup=20):
        super().__init__()
        self.gamma_max, self.warmup = gamma_max, warmup

    def gamma(self, step):
        return self.gamma_max * min(1.0, (step + 1) / self.warmup)

    def forward(self, logits, target, step):
        ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        p_true = torch.exp(-ce)
        weight = (1.0 - p_true + 1e-4) ** self.gamma(step)
        return (weight * ce).mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=18)
    ap.add_argument("--per-batch", type=int, default=5)
    ap.add_argument("--lr", type=float, default=4e-3)
    ap.add_argument("--clip", type=float, default=1.0)
    ap.add_argument("--seed", type=int, default=41)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    device = torch_xla.device()
    packs = PackedMolecules(300, args.per_batch, args.seed)
    net = OdourNet().to(device)
    focal = FocalLoss(warmup=args.steps)
    optimizer = torch.optim.AdamW(net.parameters(), lr=args.lr)

    for step in range(args.steps):
        element, adj, sizes, odour = packs.draw()
        element, adj, odour = element.to(device), adj.to(device), odour.to(device)
        logits = net(element, adj, sizes)
        loss = focal(logits, odour, step)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), args.clip)
        xm.optimizer_step(optimizer)
        agree = ((logits > 0).float() == odour).float().mean()
        torch_xla.sync()
        if (step + 1) % 6 == 0:
            print(f"step {step + 1:3d}  loss {loss.item():.4f}  label agreement {agree.item():.3f}")


if __name__ == "__main__":
    main()
