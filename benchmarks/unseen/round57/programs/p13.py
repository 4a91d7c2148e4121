"""GraphSAGE on a stochastic block model, trained with sampled neighbourhoods (two hops, fan-out 6 and 4)."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def build_graph(n=600, classes=4, dim=16, seed=0):
    rng = np.random.RandomState(seed)
    y = rng.randint(0, classes, n)
    prob = np.where(y[:, None] == y[None, :], 0.03, 0.004)
    upper = np.triu(rng.rand(n, n) < prob, 1)
    src, dst = np.nonzero(upper | upper.T)
    x = rng.randn(classes, dim)[y] + 2.5 * rng.randn(n, dim)
    neigh = [[] for _ in range(n)]
    for s, d in zip(src, dst):
        neigh[d].append(s)
    return x.astype(np.float32), y, neigh


class NeighborSampler:
    def __init__(self, neigh, fanouts, batch_size, seed):
        self.neigh, self.fanouts, self.batch_size = neigh, fanouts, batch_size
        self.rng = np.random.RandomState(seed)
        cap, frontier = batch_size, batch_size
        for f in fanouts:
            frontier *= f
            cap += frontier
        self.max_nodes = cap

    def sample(self, seeds):
        nodes = list(seeds)
        index = {n: i for i, n in enumerate(nodes)}
        src, dst = [], []
        frontier = list(nodes)
        for fanout in self.fanouts:
            nxt = []
            for d in frontier:
                cand = self.neigh[d]
                if len(cand) > fanout:
                    cand = self.rng.choice(cand, fanout, replace=False)
                for s in cand:
                    if s not in index:
                        index[s] = len(nodes)
                        nodes.append(s)
                        nxt.append(s)
                    src.append(index[s])
                    dst.append(index[d])
            frontier = nxt
        n_id = np.zeros(self.max_nodes, dtype=np.int64)
        n_id[:len(nodes)] = nodes
        return n_id, np.stack([src, dst]).astype(np.int64)

    def epoch(self, train_ids):
        order = self.rng.permutation(train_ids)
        for i in range(0, len(order) - self.batch_size + 1, self.batch_size):
            yield self.sample(order[i:i + self.batch_size])


class SAGEConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.own = nn.Linear(cin, cout)
        self.nbr = nn.Linear(cin, cout, bias=False)

    def forward(self, x, edge_index):
        src, dst = edge_index[0], edge_index[1]
        agg = torch.zeros_like(x).index_add(0, dst, x.index_select(0, src))
        deg = torch.zeros(x.size(0), device=x.device).index_add(0, dst, torch.ones_like(dst, dtype=x.dtype))
        return self.own(x) + self.nbr(agg / deg.clamp(min=1).unsqueeze(-1))


class SAGE(nn.Module):
    def __init__(self, cin, hidden, classes):
        super().__init__()
        self.c1, self.c2 = SAGEConv(cin, hidden), SAGEConv(hidden, classes)
        self.norm = nn.LayerNorm(hidden)
        self.drop = nn.Dropout(0.2)

    def forward(self, x, edge_index):
        h = self.drop(F.relu(self.norm(self.c1(x, edge_index))))
        return self.c2(h, edge_index)


class Trainer:
    def __init__(self, args):
        self.args = args
        self.device = torch_xla.device()
        x, y, neigh = build_graph()
        self.x, self.y = torch.from_numpy(x).to(self.device), torch.from_numpy(y).to(self.device)
        ids = np.random.RandomState(1).permutation(len(y))
        self.train_ids, self.val_ids = ids[:400], ids[400:]
        self.train_sampler = NeighborSampler(neigh, args.fanouts, args.batch_size, seed=2)
        self.val_edges = torch.tensor([[s, d] for d, ss in enumerate(neigh) for s in ss]).t().contiguous().to(self.device)
        self.model = SAGE(x.shape[1], 32, 4).to(self.device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=args.lr, weight_decay=5e-4)
        self.val_idx = torch.from_numpy(self.val_ids).to(self.device)

    def train_step(self, n_id, edge_index):
        n_id, edge_index = torch.from_numpy(n_id).to(self.device), torch.from_numpy(edge_index).to(self.device)
        seeds = n_id[:self.args.batch_size]
        logits = self.model(self.x[n_id], edge_index)[:self.args.batch_size]
        loss = F.cross_entropy(logits, self.y[seeds])
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        pred = self.model(self.x, self.val_edges).argmax(-1)[self.val_idx]
        acc = (pred == self.y[self.val_idx]).float().mean()
        torch_xla.sync()
        self.model.train()
        return acc.item()

    def fit(self):
        for epoch in range(self.args.epochs):
            losses = [self.train_step(*batch) for batch in self.train_sampler.epoch(self.train_ids)]
            acc = self.validate()
            mean = torch.stack([l.detach() for l in losses]).mean().item()
            xm.master_print(f"epoch {epoch} loss {mean:.3f} val {acc:.3f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--fanouts", type=int, nargs="+", default=[6, 4])
    p.add_argument("--lr", type=float, default=1e-2)
    torch.manual_seed(0)
    Trainer(p.parse_args()).fit()
