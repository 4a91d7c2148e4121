"""Message passing network for molecule toxicity; masked multi-task loss with assay weights."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NODES, EDGES, GRAPHS, FEATS, TASKS = 24, 48, 4, 6, 3


class Mpnn(nn.Module):
    def __init__(self, hidden=16, rounds=2):
        super().__init__()
        self.inp = nn.Linear(FEATS, hidden)
        self.msg = nn.ModuleList(nn.Linear(2 * hidden, hidden) for _ in range(rounds))
        self.gru = nn.GRUCell(hidden, hidden)
        self.read = nn.Linear(hidden, TASKS)

    def forward(self, x, src, dst, graph):
        h = torch.tanh(self.inp(x))
        for layer in self.msg:
            m = F.relu(layer(torch.cat([h[src], h[dst]], dim=1)))
            agg = torch.zeros_like(h).index_add(0, dst, m)
            h = self.gru(agg, h)
        pooled = torch.zeros(GRAPHS, h.shape[1], device=h.device).index_add(0, graph, h)
        return self.read(pooled)


class AssayStats:
    """Positive rate per task, refreshed from the label store once enough was seen."""

    def __init__(self, warm=4):
        self.pos, self.n, self.warm = np.zeros(TASKS), 0, warm

    def add(self, labels):
        self.pos += labels.numpy().sum(0)
        self.n += len(labels)

    def weights(self):
        if self.n < self.warm * GRAPHS:
            return torch.ones(TASKS)
        rate = (self.pos + 1) / (self.n + 2)
        return torch.tensor((1 - rate) / rate)


def molecules(rng):
    x = torch.randn(NODES, FEATS, generator=rng)
    src = torch.randint(NODES, (EDGES,), generator=rng)
    dst = torch.randint(NODES, (EDGES,), generator=rng)
    graph = torch.arange(NODES) * GRAPHS // NODES
    y = torch.randint(2, (GRAPHS, TASKS), generator=rng).float()
    known = (torch.rand(GRAPHS, TASKS, generator=rng) > 0.2).float()
    return (x, src, dst, graph), y, known


def assay_loss(logits, y, known, weight):
    per = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
    scale = torch.where(y > 0.5, weight, torch.ones_like(weight))
    return (per * scale * known).sum() / known.sum().clamp(min=1e-3)


def train(steps=6):
    torch.manual_seed(8)
    dev = xm.xla_device()
    net = Mpnn().to(dev)
    opt = torch.optim.Adagrad(net.parameters(), lr=0.02)
    rng, stats = torch.Generator().manual_seed(8), AssayStats()
    torch_xla.sync()
    for step in range(steps):
        inputs, y, known = molecules(rng)
        weight = stats.weights().to(dev)
        logits = net(*(t.to(dev) for t in inputs))
        loss = assay_loss(logits, y.to(dev), known.to(dev), weight)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        stats.add(y)
    print("last loss", float(loss))


if __name__ == "__main__":
    train()
