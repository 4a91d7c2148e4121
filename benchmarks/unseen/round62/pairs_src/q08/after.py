"""Click-through model for a classifieds site: embedding bags, dense tower, pairwise interactions."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

TABLES = {"listing": 60, "seller": 30, "region": 12, "query": 45, "device": 6}
N_DENSE = 9


def tower(*sizes, last_relu=False):
    layers = []
    for nin, nout in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(nin, nout), nn.ReLU()]
    return nn.Sequential(*(layers if last_relu else layers[:-1]))


class DotInteraction(nn.Module):
    def __init__(self, n):
        super().__init__()
        row, col = torch.tril_indices(n, n, offset=-1)
        self.register_buffer("flat", row * n + col, persistent=False)

    def forward(self, feats):
        gram = torch.bmm(feats, feats.transpose(1, 2))
        return gram.flatten(1).index_select(1, self.flat)


class ClickModel(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        n = len(TABLES) + 1
        self.dense_tower = tower(N_DENSE, 24, dim, last_relu=True)
        self.interaction = DotInteraction(n)
        self.top = tower(dim + n * (n - 1) // 2, 24, 1)
        self.tables = nn.ModuleDict({k: nn.Embedding(n, dim) for k, n in sorted(TABLES.items())})
        for t in self.tables.values():
            nn.init.uniform_(t.weight, -0.1, 0.1)

    def rows(self, cats):
        return torch.stack([self.tables[k](c) for k, c in zip(TABLES, cats.unbind(1))], 1)

    def forward(self, dense, cats):
        x = self.dense_tower(dense)
        rows = self.rows(cats)
        pairs = self.interaction(torch.cat([x.unsqueeze(1), rows], 1))
        return self.top(torch.cat([x, pairs], -1)).squeeze(-1), rows


def bce(logits, clicks):
    return F.binary_cross_entropy_with_logits(logits, clicks)


def l2_of_rows(rows):
    return rows.square().sum((1, 2)).mean()


def make_optimizer(model, lr):
    return torch.optim.Adagrad(model.parameters(), lr=lr, eps=1e-8)


class Impressions:
    def __init__(self, batch, seed):
        self.rng, self.batch = np.random.default_rng(seed), batch

    def next(self):
        dense = np.log1p(self.rng.exponential(size=(self.batch, N_DENSE)))
        cats = np.stack([self.rng.integers(0, n, self.batch) for n in TABLES.values()], 1)
        clicks = self.rng.random(self.batch) < 0.2
        return (torch.tensor(dense, dtype=torch.float32), torch.tensor(cats),
                torch.tensor(clicks, dtype=torch.float32))


def train(args, model, on_step=None):
    device = torch_xla.device()
    model = model.to(device)
    opt = make_optimizer(model, args.lr)
    data = Impressions(args.batch, args.seed)
    torch_xla.sync()
    for step in range(args.steps):
        dense, cats, clicks = (x.to(device) for x in data.next())
        opt.zero_grad()
        logits, rows = model(dense, cats)
        loss = bce(logits, clicks) + args.l2 * l2_of_rows(rows)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, "loss %.5f" % loss.item())
        if on_step is not None:
            on_step(step, model, loss)


def parse(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--steps", type=int, default=6)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--l2", type=float, default=1e-4)
    ap.add_argument("--seed", type=int, default=8)
    return ap.parse_args(argv)


if __name__ == "__main__":
    torch.manual_seed(8)
    train(parse(), ClickModel())
