"""Graph classification; graphs are packed into batches of a few fixed sizes."""
import bisect

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import IterableDataset

# (max nodes, max edges) of one packed batch; one graph slot is kept for the padding
SHAPES = [(76, 232), (88, 272), (128, 416)]
GRAPHS = 8
FEATURES, CLASSES, WIDTH = 5, 3, 16


def random_graph(rng):
    label = int(rng.integers(0, CLASSES))
    n = int(rng.integers(5, 15))
    extra = int(n * (0.2 + 0.4 * label))
    src = np.concatenate([np.arange(n), rng.integers(0, n, extra)])
    dst = np.concatenate([(np.arange(n) + 1) % n, rng.integers(0, n, extra)])
    x = (1 + 0.5 * rng.standard_normal((n, FEATURES))).astype(np.float32)
    return x, np.concatenate([src, dst]), np.concatenate([dst, src]), label


def pack(graphs):
    nodes = sum(len(g[0]) for g in graphs)
    edges = sum(len(g[1]) for g in graphs)
    i = max(bisect.bisect_right([s[0] for s in SHAPES], nodes), bisect.bisect_left([s[1] for s in SHAPES], edges))
    max_n, max_e = SHAPES[i]
    x = np.zeros((max_n, FEATURES), np.float32)
    owner = np.full(max_n, GRAPHS, np.int64)
    src = np.full(max_e, max_n - 1, np.int64)
    dst = np.full(max_e, max_n - 1, np.int64)
    y = np.zeros(GRAPHS, np.int64)
    a = b = 0
    for j, (gx, gs, gd, gy) in enumerate(graphs):
        n, e = len(gx), len(gs)
        x[a:a + n], owner[a:a + n] = gx, j
        src[b:b + e], dst[b:b + e] = gs + a, gd + a
        y[j] = gy
        a, b = a + n, b + e
    return tuple(torch.from_numpy(v) for v in (x, src, dst, owner, y))


class PackedGraphs(IterableDataset):
    def __init__(self, batches, seed):
        self.batches, self.rng = batches, np.random.default_rng(seed)

    def __iter__(self):
        for _ in range(self.batches):
            yield pack([random_graph(self.rng) for _ in range(GRAPHS)])


class SageLayer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.own, self.nbr = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, x, src, dst):
        agg = torch.zeros_like(x).index_add(0, dst, x[src])
        return F.relu(self.own(x) + self.nbr(agg) / 3)


class GraphNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = SageLayer(FEATURES, WIDTH), SageLayer(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, src, dst, owner):
        h = self.l2(self.l1(x, src, dst), src, dst)
        pooled = torch.zeros(GRAPHS + 1, WIDTH, device=x.device).index_add(0, owner, h)
        return self.head(pooled[:GRAPHS] / 10)


def run_validation(model, loader, device):
    model.eval()
    hits = torch.zeros((), dtype=torch.long, device=device)
    n = 0
    with torch.no_grad():
        for x, src, dst, owner, y in loader:
            hits = hits + (model(x, src, dst, owner).argmax(-1) == y).sum()
            n += GRAPHS
    model.train()
    return hits.item() / n


def main(epochs=6, train_batches=18, val_batches=8):
    torch.manual_seed(0)
    device = torch_xla.device()
    train = pl.MpDeviceLoader(PackedGraphs(train_batches, 1), device)
    val_set = list(PackedGraphs(val_batches, 2))
    val = pl.MpDeviceLoader(val_set, device)
    model = GraphNet().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(epochs):
        for x, src, dst, owner, y in train:
            loss = F.cross_entropy(model(x, src, dst, owner), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            last = loss.detach()
        print(f"epoch {epoch}: loss {last.item():.3f} val acc {run_validation(model, val, device):.3f}")


if __name__ == "__main__":
    main()
