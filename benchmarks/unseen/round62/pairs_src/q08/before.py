"""Click-through model for a classifieds site: embedding bags, dense tower, pairwise interactions."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

TABLES = {"listing": 60, "seller": 30, "region": 12, "query": 45, "device": 6}
N_DENSE = 9


class ClickModel(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.tables = nn.ModuleDict({k: nn.Embedding(n, dim) for k, n in TABLES.items()})
        self.bottom1 = nn.Linear(N_DENSE, 24)
        self.bottom2 = nn.Linear(24, dim)
        n = len(TABLES) + 1
        self.top1 = nn.Linear(dim + n * (n - 1) // 2, 24)
        self.top2 = nn.Linear(24, 1)
        for t in self.tables.values():
            nn.init.uniform_(t.weight, -0.1, 0.1)

    def forward(self, dense, cats):
        x = F.relu(self.bottom2(F.relu(self.bottom1(dense))))
        feats = [x]
        for i, name in enumerate(TABLES):
            feats.append(self.tables[name](cats[:, i]))
        pairs = []
        for i in range(1, len(feats)):
            for j in range(i):
                pairs.append((feats[i] * feats[j]).sum(-1, keepdim=True))
        z = torch.cat([x] + pairs, dim=-1)
        return self.top2(F.relu(self.top1(z))).squeeze(-1)


def bce(logits, clicks):
    loss = torch.clamp(logits, min=0) - logits * clicks + torch.log1p(torch.exp(-torch.abs(logits)))
    return loss.mean()


def l2_of_rows(model, cats):
    total = 0.0
    for i, name in enumerate(TABLES):
        rows = model.tables[name](cats[:, i])
        total = total + (rows ** 2).sum() / cats.shape[0]
    return total


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
        logits = model(dense, cats)
        loss = bce(logits, clicks) + args.l2 * l2_of_rows(model, cats)
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
