"""Node classifier on sampled subgraphs padded to two budgets, with a Lookahead optimizer."""
import logging
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("gnn")


@dataclass
class Config:
    seed: int = 14
    nodes: int = 120
    features: int = 10
    classes: int = 4
    hidden: int = 16
    budgets: tuple = ((24, 96), (40, 160))
    steps: int = 36
    lr: float = 5e-2
    slow_every: int = 5
    slow_rate: float = 0.4


class Graph:
    def __init__(self, cfg):
        self.g = torch.Generator().manual_seed(cfg.seed)
        self.y = torch.randint(0, cfg.classes, (cfg.nodes,), generator=self.g)
        centres = torch.randn(cfg.classes, cfg.features, generator=self.g)
        self.x = centres[self.y] + 0.8 * torch.randn(cfg.nodes, cfg.features, generator=self.g)
        same = (self.y[:, None] == self.y[None, :]).float() * 0.12 + 0.01
        self.adj = torch.rand(cfg.nodes, cfg.nodes, generator=self.g) < same

    def subgraph(self, nodes, edges):
        """A random induced subgraph, with its edges padded by loops on a spare node."""
        low = int(nodes * 0.7)
        count = int(torch.randint(low, nodes, (1,), generator=self.g))
        pick = torch.randperm(len(self.y), generator=self.g)[:count]
        src, dst = self.adj[pick][:, pick].nonzero(as_tuple=True)
        src, dst = src[:edges], dst[:edges]
        x = torch.zeros(nodes, self.x.shape[1])
        x[:count] = self.x[pick]
        y = torch.full((nodes,), -100)
        y[:count] = self.y[pick]
        pad = torch.full((edges - len(src),), nodes - 1)
        return x, y, torch.cat([src, pad]), torch.cat([dst, pad])


class SageLayer(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.own, self.near = nn.Linear(a, b), nn.Linear(a, b)

    def forward(self, x, src, dst):
        total = torch.zeros_like(x).index_add_(0, dst, x[src])
        degree = torch.zeros_like(x[:, :1]).index_add_(0, dst, torch.ones_like(x[src][:, :1]))
        return self.own(x) + self.near(total / degree.clamp(min=1))


class Sage(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.first, self.second = SageLayer(cfg.features, cfg.hidden), SageLayer(cfg.hidden, cfg.classes)

    def forward(self, x, src, dst):
        return self.second(F.relu(self.first(x, src, dst)), src, dst)


class Lookahead:
    def __init__(self, base, every, rate):
        self.base, self.every, self.rate = base, every, rate
        self.params = [p for g in base.param_groups for p in g["params"]]
        self.slow = [p.detach().clone() for p in self.params]
        self.count = 0

    def zero_grad(self):
        self.base.zero_grad()

    @torch.no_grad()
    def step(self):
        self.base.step()
        self.count += 1
        if self.count % self.every == 0:
            for s, p in zip(self.slow, self.params):
                s.add_(p - s, alpha=self.rate)
                p.mul_(0).add_(s)


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    graph, model = Graph(cfg), Sage(cfg).to(device)
    opt = Lookahead(torch.optim.SGD(model.parameters(), lr=cfg.lr), cfg.slow_every, cfg.slow_rate)
    torch_xla.sync()
    losses = []
    for step in range(cfg.steps):
        nodes, edges = cfg.budgets[step % len(cfg.budgets)]
        x, y, src, dst = (t.to(device) for t in graph.subgraph(nodes, edges))
        opt.zero_grad()
        loss = F.cross_entropy(model(x, src, dst), y, ignore_index=-100)
        loss.backward()
        opt.step()
        torch_xla.sync()
        losses.append(loss.detach())
        if (step + 1) % 12 == 0:
            log.info("step %d loss %.4f", step + 1, sum(v.item() for v in losses[-12:]) / 12)


if __name__ == "__main__":
    main()
