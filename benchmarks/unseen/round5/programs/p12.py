"""Message-passing network for molecule-like graphs, packed to a node and edge budget."""
import random
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class GNNConfig:
    node_types: int = 12
    hidden: int = 24
    layers: int = 2
    node_budget: int = 128
    edge_budget: int = 320
    steps: int = 90
    lr: float = 3e-3
    log_every: int = 20


class Graph(NamedTuple):
    types: list
    edges: list
    energy: float


class Packed(NamedTuple):
    types: torch.Tensor
    senders: torch.Tensor
    receivers: torch.Tensor
    node_mask: torch.Tensor
    edge_mask: torch.Tensor
    owner: torch.Tensor
    energy: torch.Tensor

    def to(self, device):
        return Packed(*[t.to(device) for t in self])


class Molecules:
    def __init__(self, cfg, seed=0):
        self.cfg, self.rng = cfg, random.Random(seed)

    def graph(self):
        n = min(60, max(3, int(self.rng.lognormvariate(2.1, 0.9))))
        types = [self.rng.randrange(self.cfg.node_types) for _ in range(n)]
        edges = [(i, self.rng.randrange(i)) for i in range(1, n)]
        edges += [(b, a) for a, b in edges]
        energy = sum(types) / (6.0 * n) + 0.1 * len(edges) / n
        return Graph(types, edges, energy)

    def packs(self):
        pending = self.graph()
        while True:
            pack, nodes, edges = [], 0, 0
            while (nodes + len(pending.types) <= self.cfg.node_budget
                   and edges + len(pending.edges) <= self.cfg.edge_budget):
                pack.append(pending)
                nodes += len(pending.types)
                edges += len(pending.edges)
                pending = self.graph()
            yield pack


def pad(values, size, fill=0):
    return torch.tensor(values + [fill] * (size - len(values)))


def pack_graphs(graphs, cfg):
    types, senders, receivers, owner = [], [], [], []
    for i, g in enumerate(graphs):
        base = len(types)
        types += g.types
        senders += [base + a for a, _ in g.edges]
        receivers += [base + b for _, b in g.edges]
        owner += [i] * len(g.types)
    n, e = cfg.node_budget, cfg.edge_budget
    return Packed(
        types=pad(types, n), senders=pad(senders, e), receivers=pad(receivers, e),
        node_mask=pad([1.0] * len(types), n, 0.0), edge_mask=pad([1.0] * len(senders), e, 0.0),
        owner=pad(owner, n), energy=torch.tensor([g.energy for g in graphs]))


class Interaction(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * d, d), nn.SiLU())
        self.update = nn.Linear(2 * d, d)
        self.norm = nn.LayerNorm(d)

    def forward(self, h, b):
        m = self.message(torch.cat([h[b.senders], h[b.receivers]], -1)) * b.edge_mask[:, None]
        agg = torch.zeros_like(h).index_add(0, b.receivers, m)
        return self.norm(h + F.silu(self.update(torch.cat([h, agg], -1))))


class EnergyModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.node_types, cfg.hidden)
        self.layers = nn.ModuleList(Interaction(cfg.hidden) for _ in range(cfg.layers))
        self.readout = nn.Linear(cfg.hidden, 1)

    def forward(self, b):
        h = self.emb(b.types)
        for layer in self.layers:
            h = layer(h, b)
        per_node = self.readout(h).squeeze(-1) * b.node_mask
        graphs = b.energy.shape[0]
        total = per_node.new_zeros(graphs).index_add(0, b.owner, per_node)
        size = per_node.new_zeros(graphs).index_add(0, b.owner, b.node_mask)
        return total / size.clamp_min(1.0)


def train(cfg=GNNConfig()):
    torch.manual_seed(5)
    device = torch_xla.device()
    model = EnergyModel(cfg).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    seen = 0
    for step, graphs in enumerate(Molecules(cfg).packs()):
        if step == cfg.steps:
            break
        batch = pack_graphs(graphs, cfg).to(device)
        opt.zero_grad()
        error = model(batch) - batch.energy
        loss = error.square().mean()
        loss.backward()
        opt.step()
        torch_xla.sync()
        seen += len(graphs)
        if step % cfg.log_every == 0:
            print(f"step {step:3d} mse {loss.item():.4f} molecules {seen}", flush=True)


if __name__ == "__main__":
    train()
