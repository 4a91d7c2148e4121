"""Fraud scoring on a transaction graph with neighbour sampling.

A batch is a handful of seed accounts and the accounts reached by sampling up to
`fanout` counterparties per hop; features of the sampled accounts go to the
device together with the edges, and the loss is taken on the seeds.
"""
import collections
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader

Block = collections.namedtuple("Block", "x src dst y")


class TransactionGraph:
    def __init__(self, accounts=600, mean_degree=7, features=12, seed=1):
        rng = np.random.default_rng(seed)
        ring = rng.random(accounts) < 0.2
        weight = rng.pareto(2.5, accounts) + 0.2
        weight /= weight.sum()
        self.neighbours = []
        for a in range(accounts):
            k = max(1, rng.poisson(mean_degree))
            others = rng.choice(accounts, size=k, p=weight)
            if ring[a]:
                same = rng.choice(np.flatnonzero(ring), size=max(1, k // 2))
                others = np.concatenate([others, same])
            self.neighbours.append(others)
        self.x = rng.normal(0, 1, (accounts, features)).astype(np.float32)
        self.x[:, 0] += 0.5 * ring
        self.y = ring.astype(np.float32)

    def __len__(self):
        return len(self.y)


class NeighbourSampler:
    """collate_fn: list of seed ids -> Block with ids renumbered from zero."""

    def __init__(self, graph, fanout=(5, 3), seed=2):
        self.graph = graph
        self.fanout = fanout
        self.random = random.Random(seed)

    def hop(self, frontier, fanout):
        src, dst = [], []
        for node in frontier:
            pool = self.graph.neighbours[node].tolist()
            picked = pool if len(pool) <= fanout else self.random.sample(pool, fanout)
            src += picked
            dst += [node] * len(picked)
        return src, dst

    def __call__(self, seeds):
        src, dst = [], []
        frontier = list(seeds)
        for fanout in self.fanout:
            s, d = self.hop(frontier, fanout)
            src += s
            dst += d
            frontier = sorted(set(s) - set(frontier))
        others = np.setdiff1d(np.array(src), np.array(seeds))
        nodes = np.concatenate([np.array(seeds), others])
        number = {int(n): i for i, n in enumerate(nodes)}
        return Block(
            torch.from_numpy(self.graph.x[nodes]),
            torch.tensor([number[n] for n in src]),
            torch.tensor([number[n] for n in dst]),
            torch.from_numpy(self.graph.y[np.array(seeds)]),
        )


class MeanConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.own = nn.Linear(cin, cout)
        self.other = nn.Linear(cin, cout, bias=False)

    def forward(self, x, src, dst):
        gathered = x.index_select(0, src)
        total = torch.zeros_like(x).index_add(0, dst, gathered)
        count = x.new_zeros(x.shape[0]).index_add(0, dst, torch.ones_like(dst, dtype=x.dtype))
        return self.own(x) + self.other(total / count.clamp(min=1).unsqueeze(1))


class FraudNet(nn.Module):
    def __init__(self, features, width=24):
        super().__init__()
        self.c1 = MeanConv(features, width)
        self.c2 = MeanConv(width, width)
        self.out = nn.Linear(width, 1)

    def forward(self, block, seeds):
        h = F.relu(self.c1(block.x, block.src, block.dst))
        h = F.relu(self.c2(h, block.src, block.dst))
        return self.out(h[:seeds]).squeeze(1)


def run(epochs=1, batch=20):
    device = torch_xla.device()
    graph = TransactionGraph()
    loader = DataLoader(
        range(len(graph)), batch_size=batch, shuffle=True, drop_last=True,
        collate_fn=NeighbourSampler(graph),
    )
    device_loader = pl.MpDeviceLoader(loader, device)
    model = FraudNet(graph.x.shape[1]).to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.02)
    positive = torch.tensor(3.0, device=device)

    for epoch in range(epochs):
        right = torch.zeros((), device=device)
        for block in map(Block._make, device_loader):
            logit = model(block, batch)
            loss = F.binary_cross_entropy_with_logits(logit, block.y, pos_weight=positive)
            opt.zero_grad()
            loss.backward()
            opt.step()
            right += ((logit.detach() > 0) == (block.y > 0.5)).float().mean()
        torch_xla.sync()
        print(f"epoch {epoch}  accuracy {right.item() / len(loader):.3f}  loss {loss.item():.3f}")


if __name__ == "__main__":
    torch.manual_seed(4)
    run()
