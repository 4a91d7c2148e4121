"""Message-passing regressor for small organic molecules (solubility-like target).

Graphs of a batch are packed into one big graph: nodes are padded to a fixed
budget, edges to the next multiple of `edge_multiple` so that not every batch
has a shape of its own.
"""
import copy
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

cfg = SimpleNamespace(
    graphs=6, node_budget=96, edge_multiple=64, atom_types=9, bond_types=4,
    hidden=16, layers=2, lr=2e-3, momentum=0.9, ema_decay=0.99, ema_start=7, steps=12,
)


def random_molecule(rng):
    n = int(rng.integers(5, 15))
    src = [int(rng.integers(0, i)) for i in range(1, n)]
    dst = list(range(1, n))
    for _ in range(int(rng.integers(0, 3))):
        a, b = rng.choice(n, 2, replace=False)
        src.append(int(a))
        dst.append(int(b))
    src, dst = np.array(src), np.array(dst)
    atoms = rng.integers(0, cfg.atom_types, n)
    bonds = rng.integers(0, cfg.bond_types, len(src))
    y = 0.3 * (atoms == 2).sum() - 0.1 * n + 0.05 * (bonds == 1).sum()
    return atoms, np.concatenate([src, dst]), np.concatenate([dst, src]), np.concatenate([bonds, bonds]), y


def collate(mols):
    atoms, src, dst, bonds, gid, ys = [], [], [], [], [], []
    off = 0
    for g, (a, s, d, b, y) in enumerate(mols):
        atoms.append(a)
        src.append(s + off)
        dst.append(d + off)
        bonds.append(b)
        gid.append(np.full(len(a), g))
        ys.append(y)
        off += len(a)
    atoms, gid = np.concatenate(atoms), np.concatenate(gid)
    src, dst, bonds = np.concatenate(src), np.concatenate(dst), np.concatenate(bonds)

    e = len(src)
    e_pad = -(-e // cfg.edge_multiple) * cfg.edge_multiple
    sink = cfg.node_budget - 1
    atoms = np.pad(atoms, (0, cfg.node_budget - len(atoms)))
    gid = np.pad(gid, (0, cfg.node_budget - len(gid)), constant_values=cfg.graphs)
    src = np.pad(src, (0, e_pad - e), constant_values=sink)
    dst = np.pad(dst, (0, e_pad - e), constant_values=sink)
    bonds = np.pad(bonds, (0, e_pad - e))
    edge_w = (np.arange(e_pad) < e).astype(np.float32)
    as_t = torch.from_numpy
    return (as_t(atoms), as_t(src), as_t(dst), as_t(bonds), as_t(edge_w), as_t(gid),
            torch.tensor(ys, dtype=torch.float32))


class EdgeConv(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.msg = nn.Linear(2 * h, h)
        self.upd = nn.Linear(2 * h, h)
        self.norm = nn.LayerNorm(h)

    def forward(self, x, e, src, dst, w):
        m = F.relu(self.msg(torch.cat([x[src], e], -1))) * w[:, None]
        agg = torch.zeros_like(x).index_add(0, dst, m)
        return self.norm(x + self.upd(torch.cat([x, agg], -1)))


class MPNN(nn.Module):
    def __init__(self):
        super().__init__()
        h = cfg.hidden
        self.atom = nn.Embedding(cfg.atom_types, h)
        self.bond = nn.Embedding(cfg.bond_types, h)
        self.convs = nn.ModuleList(EdgeConv(h) for _ in range(cfg.layers))
        self.head = nn.Sequential(nn.Linear(h, h), nn.SiLU(), nn.Linear(h, 1))

    def forward(self, atoms, src, dst, bonds, w, gid):
        x, e = self.atom(atoms), self.bond(bonds)
        for conv in self.convs:
            x = conv(x, e, src, dst, w)
        pooled = x.new_zeros(cfg.graphs + 1, x.shape[1]).index_add(0, gid, x)
        return self.head(pooled[: cfg.graphs]).squeeze(-1)


class Averaged:
    """Shadow copy of the weights for evaluation."""

    def __init__(self, model, decay):
        self.module = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.module.parameters(), model.parameters()):
            s.lerp_(p, 1.0 - self.decay)


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(21)
    device = torch_xla.device()
    model = MPNN().to(device)
    avg = Averaged(model, cfg.ema_decay)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=cfg.momentum, weight_decay=1e-4)

    log = []
    for step in range(cfg.steps):
        *graph, y = collate([random_molecule(rng) for _ in range(cfg.graphs)])
        pred = model(*[t.to(device) for t in graph])
        loss = F.smooth_l1_loss(pred, y.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step >= cfg.ema_start:
            avg.update(model)
        torch_xla.sync()
        log.append((step, len(graph[1]), loss.detach()))

    for step, edges, loss in log:
        print(f"{step:3d}  edges {edges:4d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
