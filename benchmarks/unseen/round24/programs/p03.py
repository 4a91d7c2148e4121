"""Node classification with a two-layer GCN and DropEdge on a stochastic block model."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    nodes: int = 120
    blocks: int = 4
    feats: int = 16
    hidden: int = 32
    edges: int = 900
    p_drop_edge: float = 0.2
    p_drop: float = 0.3
    lr: float = 0.01
    weight_decay: float = 5e-4
    epochs: int = 50
    eval_every: int = 10


def block_graph(cfg, gen):
    """Same number of directed edges every time; most of them inside a block."""
    y = torch.randint(0, cfg.blocks, (cfg.nodes,), generator=gen)
    edges = []
    while len(edges) < cfg.edges:
        a, b = torch.randint(0, cfg.nodes, (2,), generator=gen).tolist()
        keep = 0.9 if y[a] == y[b] else 0.1
        if a != b and torch.rand((), generator=gen).item() < keep:
            edges += [(a, b), (b, a)]
    ei = torch.tensor(edges[:cfg.edges]).t().contiguous()
    x = torch.randn(cfg.nodes, cfg.feats, generator=gen)
    x[torch.arange(cfg.nodes), y] += 0.8
    return x, y, ei


def drop_edges(edge_index, p, training):
    if not training or p == 0:
        return edge_index
    keep = torch.rand(edge_index.size(1), device=edge_index.device) >= p
    return edge_index[:, keep]


class GCNConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin = nn.Linear(d_in, d_out, bias=False)
        self.bias = nn.Parameter(torch.zeros(d_out))

    def forward(self, x, edge_index):
        n = x.size(0)
        src, dst = edge_index[0], edge_index[1]
        deg = torch.ones(n, device=x.device).index_add(
            0, dst, torch.ones(dst.size(0), device=x.device))
        norm = deg.rsqrt()
        h = self.lin(x)
        msg = h[src] * (norm[src] * norm[dst])[:, None]
        out = torch.zeros_like(h).index_add(0, dst, msg)
        return out + h * (norm ** 2)[:, None] + self.bias


class GCN(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.c1 = GCNConv(cfg.feats, cfg.hidden)
        self.c2 = GCNConv(cfg.hidden, cfg.blocks)

    def forward(self, x, edge_index):
        edge_index = drop_edges(edge_index, self.cfg.p_drop_edge, self.training)
        h = F.relu(self.c1(x, edge_index))
        h = F.dropout(h, self.cfg.p_drop, self.training)
        return self.c2(h, edge_index)


def masked_ce(logits, y, mask):
    per_node = F.cross_entropy(logits, y, reduction="none")
    return (per_node * mask).sum() / mask.sum()


def run(cfg):
    gen = torch.Generator().manual_seed(1)
    torch.manual_seed(1)
    dev = torch_xla.device()
    x, y, ei = (t.to(dev) for t in block_graph(cfg, gen))
    role = torch.rand(cfg.nodes, generator=gen)
    train_mask = (role < 0.5).float().to(dev)
    test_mask = (role >= 0.5).float().to(dev)

    net = GCN(cfg).to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)

    for epoch in range(1, cfg.epochs + 1):
        net.train()
        opt.zero_grad()
        loss = masked_ce(net(x, ei), y, train_mask)
        loss.backward()
        opt.step()
        torch_xla.sync()

        if epoch % cfg.eval_every == 0:
            net.eval()
            with torch.no_grad():
                right = (net(x, ei).argmax(1) == y).float()
                acc = (right * test_mask).sum() / test_mask.sum()
            torch_xla.sync()
            print(f"[{epoch:3d}] loss {loss.item():.4f} test acc {acc.item():.3f}")


if __name__ == "__main__":
    run(Config())
