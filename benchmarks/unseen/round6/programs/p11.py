"""Graph regression (molecule-like random graphs) with message passing."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

MAX_NODES, GRAPHS, NODE_TYPES = 12, 8, 6


class Graph:
    def __init__(self, rng):
        self.n = int(rng.integers(5, MAX_NODES + 1))
        self.types = rng.integers(1, NODE_TYPES, size=self.n)
        pairs = [(i, int(rng.integers(0, i))) for i in range(1, self.n)]
        for _ in range(int(rng.integers(0, 3))):
            i, j = rng.integers(0, self.n, size=2)
            if i != j:
                pairs.append((int(i), int(j)))
        self.edges = np.array(pairs + [(j, i) for i, j in pairs], dtype=np.int64).T
        self.target = float(self.types.mean() + 0.3 * len(pairs) / self.n)


class GraphSet:
    def __init__(self, size, seed):
        self.rng = np.random.default_rng(seed)
        self.graphs = [Graph(self.rng) for _ in range(size)]

    def sample(self, k):
        return [self.graphs[i] for i in self.rng.choice(len(self.graphs), k, replace=False)]


def collate(graphs):
    """Nodes go to fixed slots of MAX_NODES per graph; type 0 is an empty slot."""
    types = np.zeros(len(graphs) * MAX_NODES, dtype=np.int64)
    edges, target = [], np.zeros(len(graphs), dtype=np.float32)
    for k, g in enumerate(graphs):
        offset = k * MAX_NODES
        types[offset:offset + g.n] = g.types
        edges.append(g.edges + offset)
        target[k] = g.target
    return {
        "types": torch.from_numpy(types),
        "edges": torch.from_numpy(np.concatenate(edges, axis=1)),
        "target": torch.from_numpy(target),
    }


class MessageLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.msg = nn.Sequential(nn.Linear(2 * dim, dim), nn.SiLU())
        self.upd = nn.GRUCell(dim, dim)

    def forward(self, h, src, dst):
        m = self.msg(torch.cat([h.index_select(0, src), h.index_select(0, dst)], -1))
        total = torch.zeros_like(h).index_add_(0, dst, m)
        return self.upd(total, h)


class GraphRegressor(nn.Module):
    def __init__(self, dim=24, rounds=3):
        super().__init__()
        self.emb = nn.Embedding(NODE_TYPES, dim, padding_idx=0)
        self.layers = nn.ModuleList([MessageLayer(dim) for _ in range(rounds)])
        self.out = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, 1))

    def forward(self, types, edges):
        mask = (types > 0).float()[:, None]
        h = self.emb(types)
        for layer in self.layers:
            h = layer(h, edges[0], edges[1]) * mask
        h = h.view(-1, MAX_NODES, h.shape[-1])
        size = mask.view(-1, MAX_NODES, 1).sum(1)
        return self.out(h.sum(1) / size).squeeze(-1)


class Loop:
    def __init__(self, device, lr=3e-3):
        self.device = device
        self.model = GraphRegressor().to(device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.ema = None

    def put(self, batch):
        return {k: v.to(self.device) for k, v in batch.items()}

    def step(self, graphs):
        b = self.put(collate(graphs))
        pred = self.model(b["types"], b["edges"])
        loss = F.smooth_l1_loss(pred, b["target"])
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss.detach()


def main():
    torch.manual_seed(0)
    data = GraphSet(300, seed=9)
    loop = Loop(torch_xla.device())
    torch_xla.sync()
    for step in range(24):
        loss = loop.step(data.sample(GRAPHS))
        if (step + 1) % 6 == 0:
            value = loss.item()
            loop.ema = value if loop.ema is None else 0.8 * loop.ema + 0.2 * value
            print(f"{step + 1:3d} loss {value:.4f} smoothed {loop.ema:.4f}")


if __name__ == "__main__":
    main()
