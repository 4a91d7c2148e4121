"""Molecule-like graph regression; batches are padded up to one of three sizes."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

BUCKETS = [8, 16, 24]
BATCH = 6
N_TRAIN, N_VAL = 108, 36
EPOCHS = 5
FEATS = 5


def random_molecule(rng):
    n = int(rng.integers(4, BUCKETS[-1] + 1))
    kinds = rng.integers(0, FEATS, n)
    adj = np.zeros((n, n), np.float32)
    for i in range(1, n):
        j = int(rng.integers(max(0, i - 3), i))
        adj[i, j] = adj[j, i] = 1
    for _ in range(n // 5):
        i, j = rng.choice(n, 2, replace=False)
        adj[i, j] = adj[j, i] = 1
    degree = adj.sum(1)
    y = (0.3 * kinds + (degree == 3) - 0.5 * (degree == 1)).mean()
    return kinds, adj, np.float32(y)


def bucket_of(n):
    return next(b for b in BUCKETS if n <= b)


class BucketLoader:
    """Full batches only, every batch from a single bucket."""

    def __init__(self, graphs, shuffle):
        self.by_bucket = {b: [] for b in BUCKETS}
        for g in graphs:
            self.by_bucket[bucket_of(len(g[0]))].append(g)
        self.shuffle = shuffle

    def __iter__(self):
        plan = []
        for b, graphs in self.by_bucket.items():
            order = list(range(len(graphs)))
            if self.shuffle:
                random.shuffle(order)
            for i in range(0, len(order) - BATCH + 1, BATCH):
                plan.append((b, [graphs[k] for k in order[i:i + BATCH]]))
        if self.shuffle:
            random.shuffle(plan)
        for b, graphs in plan:
            yield self.collate(b, graphs)

    @staticmethod
    def collate(size, graphs):
        x = np.zeros((BATCH, size, FEATS), np.float32)
        adj = np.zeros((BATCH, size, size), np.float32)
        mask = np.zeros((BATCH, size, 1), np.float32)
        for k, (kinds, a, _) in enumerate(graphs):
            n = len(kinds)
            x[k, np.arange(n), kinds] = 1
            adj[k, :n, :n] = a / np.maximum(a.sum(1, keepdims=True), 1)
            mask[k, :n] = 1
        y = np.array([g[2] for g in graphs], np.float32)
        return [torch.from_numpy(t) for t in (x, adj, mask, y)]


class SageLayer(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.self_lin = nn.Linear(d_in, d_out)
        self.neigh_lin = nn.Linear(d_in, d_out, bias=False)
        self.norm = nn.LayerNorm(d_out)

    def forward(self, h, adj):
        return torch.relu(self.norm(self.self_lin(h) + self.neigh_lin(adj @ h)))


class GraphNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.layers = nn.ModuleList([SageLayer(FEATS, width), SageLayer(width, width)])
        self.out = nn.Linear(width, 1)

    def forward(self, x, adj, mask):
        for layer in self.layers:
            x = layer(x, adj) * mask
        return self.out(x.sum(1) / mask.sum(1)).squeeze(-1)


def validate(net, loader, dev):
    net.eval()
    err = torch.zeros(1, device=dev)
    count = 0
    with torch.no_grad():
        for batch in loader:
            x, adj, mask, y = (t.to(dev) for t in batch)
            err += (net(x, adj, mask) - y).abs().sum()
            count += BATCH
            torch_xla.sync()
    return err.item() / max(count, 1)


def main():
    random.seed(0)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    graphs = [random_molecule(rng) for _ in range(N_TRAIN + N_VAL)]
    train, val = BucketLoader(graphs[:N_TRAIN], True), BucketLoader(graphs[N_TRAIN:], False)
    dev = torch_xla.device()
    net = GraphNet().to(dev)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    torch_xla.sync()
    for epoch in range(EPOCHS):
        net.train()
        for batch in train:
            x, adj, mask, y = (t.to(dev) for t in batch)
            opt.zero_grad()
            loss = nn.functional.smooth_l1_loss(net(x, adj, mask), y)
            loss.backward()
            xm.optimizer_step(opt, barrier=True)
        print("epoch", epoch, "train", round(loss.item(), 4), "val mae", round(validate(net, val, dev), 4))


if __name__ == "__main__":
    main()
