"""Molecule-like graph regression with an edge-conditioned message passing net.

Graphs are packed into batches of a fixed node/edge budget; there are three budgets so
small graphs do not pay for the padding of the large ones.
"""
import bisect
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BUDGETS = [(8, 24), (16, 48), (32, 96)]       # (nodes, edges) of one padded graph
GRAPHS_PER_BATCH = 8


def random_graph(rng):
    n = int(rng.choice([rng.integers(4, 8), rng.integers(8, 16), rng.integers(16, 32)]))
    src, dst = [], []
    for v in range(1, n):                       # random tree, both directions
        u = int(rng.integers(0, v))
        src += [u, v]
        dst += [v, u]
    for _ in range(n // 4):                     # a few rings
        u, v = (int(k) for k in rng.choice(n, 2, replace=False))
        src += [u, v]
        dst += [v, u]
    kind = rng.integers(0, 5, n)
    y = (kind == 2).sum() / 4.0 + len(src) / (2.0 * n) - 1.0
    return kind, np.array([src, dst]), np.float32(y)


def pad(graph):
    kind, edges, y = graph
    b = bisect.bisect_left([n for n, _ in BUDGETS], len(kind) + 1)
    nodes, n_edges = BUDGETS[b]
    k = np.full(nodes, 5)
    k[:len(kind)] = kind
    e = np.full((2, n_edges), nodes - 1)        # padding edges are loops on the last (dummy) node
    e[:, :edges.shape[1]] = edges
    return b, (k, e, y)


class BucketLoader:
    def __init__(self, graphs, shuffle, seed=0):
        self.buckets = [[] for _ in BUDGETS]
        for g in graphs:
            b, item = pad(g)
            self.buckets[b].append(item)
        self.shuffle, self.rng = shuffle, random.Random(seed)

    def __iter__(self):
        order = []
        for b, items in enumerate(self.buckets):
            idx = list(range(len(items)))
            if self.shuffle:
                self.rng.shuffle(idx)
            order += [(b, idx[i:i + GRAPHS_PER_BATCH])
                      for i in range(0, len(idx) - GRAPHS_PER_BATCH + 1, GRAPHS_PER_BATCH)]
        if self.shuffle:
            self.rng.shuffle(order)
        for b, idx in order:
            k, e, y = zip(*(self.buckets[b][i] for i in idx))
            nodes = BUDGETS[b][0]
            e = np.concatenate([ei + j * nodes for j, ei in enumerate(e)], axis=1)
            yield (torch.from_numpy(np.concatenate(k)), torch.from_numpy(e),
                   torch.arange(len(idx)).repeat_interleave(nodes), torch.tensor(np.stack(y)))


class MPNN(nn.Module):
    def __init__(self, d=24, rounds=2):
        super().__init__()
        self.embed = nn.Embedding(6, d)
        self.msg = nn.ModuleList(nn.Linear(2 * d, d) for _ in range(rounds))
        self.upd = nn.ModuleList(nn.Linear(2 * d, d) for _ in range(rounds))
        self.read = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, 1))

    def forward(self, kind, edges, graph_id):
        real = (kind != 5).float()[:, None]
        h = self.embed(kind) * real
        src, dst = edges[0], edges[1]
        for msg, upd in zip(self.msg, self.upd):
            m = F.relu(msg(torch.cat([h.index_select(0, src), h.index_select(0, dst)], -1)))
            agg = torch.zeros_like(h).index_add(0, dst, m)
            h = (h + F.relu(upd(torch.cat([h, agg], -1)))) * real
        pooled = torch.zeros(GRAPHS_PER_BATCH, h.shape[1], device=h.device).index_add(0, graph_id, h)
        count = torch.zeros(GRAPHS_PER_BATCH, 1, device=h.device).index_add(0, graph_id, real)
        return self.read(pooled / count).squeeze(-1)


def main(epochs=6):
    rng = np.random.default_rng(9)
    torch.manual_seed(9)
    device = torch_xla.device()
    train = BucketLoader([random_graph(rng) for _ in range(120)], shuffle=True)
    valid = BucketLoader([random_graph(rng) for _ in range(80)], shuffle=False)
    model = MPNN().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=5e-3, momentum=0.9)
    for epoch in range(epochs):
        model.train()
        losses = []
        for batch in train:
            kind, edges, gid, y = (t.to(device) for t in batch)
            loss = F.mse_loss(model(kind, edges, gid), y)
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt, barrier=True)
            losses.append(loss)
        model.eval()
        errors = []
        with torch.no_grad():
            for batch in valid:
                kind, edges, gid, y = (t.to(device) for t in batch)
                errors.append((model(kind, edges, gid) - y).abs().mean())
                torch_xla.sync()
        print(f"epoch {epoch} train mse {np.mean([l.item() for l in losses]):.4f} "
              f"valid mae {np.mean([e.item() for e in errors]):.4f}")


if __name__ == "__main__":
    main()
