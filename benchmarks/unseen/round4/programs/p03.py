"""Node classification with a two-layer GCN on a random citation graph, with DropEdge (Rong et al.)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N, E, FEAT, CLASSES = 120, 600, 24, 5


def make_graph(seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (N,), generator=g)
    src = torch.randint(N, (E,), generator=g)
    same = torch.stack([torch.randint(N, (E,), generator=g) for _ in range(6)])
    hit = (y[same] == y[src]).float().argmax(0)
    dst = same.gather(0, hit[None]).squeeze(0)
    x = F.one_hot(y, FEAT).float() + 0.8 * torch.randn(N, FEAT, generator=g)
    edge_index = torch.cat([torch.stack([src, dst]), torch.stack([dst, src])], 1)
    order = torch.randperm(N, generator=g)
    train = torch.zeros(N)
    train[order[:70]] = 1.0
    return x, edge_index, y, train


class GCNConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o)

    def forward(self, x, edge_index):
        src, dst = edge_index[0], edge_index[1]
        one = torch.ones_like(src, dtype=x.dtype)
        deg = torch.ones(x.shape[0], device=x.device).index_add(0, dst, one)
        norm = deg.rsqrt()
        h = self.lin(x)
        msg = h[src] * (norm[src] * norm[dst])[:, None]
        return h * norm[:, None] ** 2 + torch.zeros_like(h).index_add(0, dst, msg)


def drop_edge(edge_index, p, training):
    if not training or p == 0.0:
        return edge_index
    keep = torch.rand(edge_index.shape[1], device=edge_index.device) >= p
    return edge_index[:, keep]


class GCN(nn.Module):
    def __init__(self, hidden=16, p_edge=0.2):
        super().__init__()
        self.c1 = GCNConv(FEAT, hidden)
        self.c2 = GCNConv(hidden, CLASSES)
        self.p_edge = p_edge

    def forward(self, x, edge_index):
        ei = drop_edge(edge_index, self.p_edge, self.training)
        h = F.relu(self.c1(x, ei))
        return self.c2(h, ei)


def main():
    torch.manual_seed(1)
    dev = torch_xla.device()
    x, edge_index, y, train = (t.to(dev) for t in make_graph())
    model = GCN().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=5e-4)
    torch_xla.sync()
    for epoch in range(10):
        model.train()
        opt.zero_grad()
        nll = F.cross_entropy(model(x, edge_index), y, reduction="none")
        loss = (nll * train).sum() / train.sum()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if epoch % 3 == 2:
            model.eval()
            with torch.no_grad():
                hit = (model(x, edge_index).argmax(1) == y).float()
                test = 1.0 - train
                acc = (hit * test).sum() / test.sum()
            torch_xla.sync()
            print(f"epoch {epoch} loss {loss.item():.4f} test acc {acc.item():.3f}")


if __name__ == "__main__":
    main()
