"""Solubility regression on random molecules with a small message-passing net.

Graphs are concatenated into one big disconnected graph per batch (the usual
edge_index / batch-vector layout) and the loss keeps the harder part of the batch.
"""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 4242
ELEMENTS = 6
MIN_ATOMS, MAX_ATOMS = 5, 14
GRAPHS = 32
STEPS = 24
KEEP_START, KEEP_END = 1.0, 0.4


class Molecule:
    def __init__(self, rng):
        n = int(rng.integers(MIN_ATOMS, MAX_ATOMS + 1))
        self.z = rng.integers(0, ELEMENTS, size=n)
        bonds = [(i, int(rng.integers(0, i))) for i in range(1, n)]
        for _ in range(int(rng.integers(0, 3))):  # close up to two rings
            a, b = rng.choice(n, size=2, replace=False)
            bonds.append((int(a), int(b)))
        src, dst = np.array(bonds).T
        self.edges = np.stack([np.r_[src, dst], np.r_[dst, src]])
        polarity = np.array([0.1, 0.9, -0.4, 0.7, -0.8, 0.2])[self.z]
        degree = np.bincount(self.edges[1], minlength=n)
        self.y = float((polarity * degree).mean() + rng.normal(0, 0.05))


def collate(molecules):
    z, edges, owner, offset = [], [], [], 0
    for g, mol in enumerate(molecules):
        z.append(mol.z)
        edges.append(mol.edges + offset)
        owner.append(np.full(len(mol.z), g))
        offset += len(mol.z)
    z, owner = np.concatenate(z), np.concatenate(owner)
    edges = np.concatenate(edges, axis=1)
    y = np.array([m.y for m in molecules], dtype=np.float32)
    return tuple(torch.from_numpy(a) for a in (z, edges, owner, y))


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.message = nn.Linear(2 * dim, dim)
        self.update = nn.Linear(2 * dim, dim)

    def forward(self, h, src, dst):
        msg = F.relu(self.message(torch.cat([h[src], h[dst]], dim=-1)))
        agg = torch.zeros_like(h).index_add(0, dst, msg)
        return h + F.relu(self.update(torch.cat([h, agg], dim=-1)))


class MoleculeNet(nn.Module):
    def __init__(self, dim=24, depth=1):
        super().__init__()
        self.embed = nn.Embedding(ELEMENTS + 1, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.readout = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, z, edges, owner):
        h = self.embed(z)
        for block in self.blocks:
            h = block(h, edges[0], edges[1])
        pooled = torch.zeros(GRAPHS + 1, h.shape[-1], device=h.device).index_add(0, owner, h)
        count = torch.zeros(GRAPHS + 1, device=h.device).index_add(0, owner, torch.ones_like(h[:, 0]))
        pooled = pooled / count.clamp(min=1.0).unsqueeze(-1)
        return self.readout(pooled[:GRAPHS]).squeeze(-1)


class HardMining:
    """Begins with the plain mean and shifts towards the worst molecules."""

    def __init__(self, start, end, total):
        self.start, self.end, self.total = start, end, total

    def keep(self, step, n):
        frac = self.start + (self.end - self.start) * step / self.total
        return max(1, int(round(frac * n)))

    def __call__(self, per_item, step):
        worst, _ = torch.topk(per_item, self.keep(step, per_item.numel()))
        return worst.mean()


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    device = torch_xla.device()

    pool = [Molecule(rng) for _ in range(600)]
    model = MoleculeNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    mining = HardMining(KEEP_START, KEEP_END, STEPS)
    running = torch.zeros((), device=device)
    torch_xla.sync()

    for step in range(STEPS):
        picks = rng.choice(len(pool), size=GRAPHS, replace=False)
        batch = collate([pool[i] for i in picks])
        z, edges, owner, y = (t.to(device) for t in batch)

        pred = model(z, edges, owner)
        per_graph = F.smooth_l1_loss(pred, y, reduction="none")
        loss = mining(per_graph, step)

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running.mul_(0.9).add_(per_graph.detach().mean(), alpha=0.1)
        torch_xla.sync()

        if (step + 1) % 8 == 0:
            print(f"step {step + 1:3d}  running {running.item():.4f}")


if __name__ == "__main__":
    main()
