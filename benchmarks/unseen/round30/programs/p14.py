"""Node classification on a stochastic block model with a GCN and edge dropout."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def sbm(n, k, p_in, p_out, rng):
    y = rng.integers(0, k, n)
    same = y[:, None] == y[None]
    prob = np.where(same, p_in, p_out)
    adj = np.triu(rng.random((n, n)) < prob, 1)
    src, dst = np.nonzero(adj)
    feats = np.eye(k)[y] * 0.3 + rng.standard_normal((n, k)) * 0.7
    return feats.astype("float32"), y, np.stack([src, dst])


def drop_edges(edge_index, p, rng, undirected=True):
    keep = rng.random(edge_index.shape[1]) >= p
    edge_index = edge_index[:, keep]
    if undirected:
        edge_index = np.concatenate([edge_index, edge_index[::-1]], axis=1)
    return edge_index


def add_loops(edge_index, n):
    loop = np.arange(n)
    return np.concatenate([edge_index, np.stack([loop, loop])], axis=1)


class GCNConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o, bias=False)
        self.bias = nn.Parameter(torch.zeros(o))

    def forward(self, x, edge_index):
        src, dst = edge_index[0], edge_index[1]
        n = x.size(0)
        ones = torch.ones(src.size(0), device=x.device)
        deg = torch.zeros(n, device=x.device).index_add_(0, dst, ones)
        norm = deg.clamp(min=1).rsqrt()
        msg = self.lin(x)[src] * (norm[src] * norm[dst]).unsqueeze(-1)
        return torch.zeros(n, msg.size(1), device=x.device).index_add_(0, dst, msg) + self.bias


class GCN(nn.Module):
    def __init__(self, i, h, o, p=0.3):
        super().__init__()
        self.c1, self.c2 = GCNConv(i, h), GCNConv(h, o)
        self.p = p

    def forward(self, x, edge_index):
        h = F.dropout(F.relu(self.c1(x, edge_index)), self.p, self.training)
        return self.c2(h, edge_index)


def run(args):
    rng = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    dev = xm.xla_device()
    x, y, edges = sbm(args.nodes, args.classes, 0.12, 0.02, rng)
    x, y = torch.from_numpy(x).to(dev), torch.from_numpy(y).to(dev)
    split = rng.random(args.nodes)
    train_mask = torch.from_numpy((split < 0.5).astype("float32")).to(dev)
    val_mask = torch.from_numpy((split >= 0.5).astype("float32")).to(dev)
    full = torch.from_numpy(add_loops(np.concatenate([edges, edges[::-1]], 1), args.nodes)).to(dev)

    model = GCN(x.size(1), args.hidden, args.classes).to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=5e-4)

    for epoch in range(1, args.epochs + 1):
        model.train()
        ei = add_loops(drop_edges(edges, args.drop_edge, rng), args.nodes)
        ei = torch.from_numpy(ei).to(dev)
        opt.zero_grad()
        ce = F.cross_entropy(model(x, ei), y, reduction="none")
        loss = (ce * train_mask).sum() / train_mask.sum()
        loss.backward()
        xm.optimizer_step(opt, barrier=True)

        if epoch % args.eval_every == 0:
            model.eval()
            with torch.no_grad():
                hit = (model(x, full).argmax(-1) == y).float()
                acc = (hit * val_mask).sum() / val_mask.sum()
            xm.mark_step()
            print(f"epoch {epoch:3d} loss {loss.item():.4f} val {acc.item():.3f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--nodes", type=int, default=120)
    ap.add_argument("--classes", type=int, default=4)
    ap.add_argument("--hidden", type=int, default=16)
    ap.add_argument("--epochs", type=int, default=48)
    ap.add_argument("--eval_every", type=int, default=8)
    ap.add_argument("--drop_edge", type=float, default=0.2)
    ap.add_argument("--lr", type=float, default=0.01)
    ap.add_argument("--seed", type=int, default=0)
    run(ap.parse_args())
