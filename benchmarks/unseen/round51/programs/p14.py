"""Implicit-feedback recommender: matrix factorisation trained with the BPR objective."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset


def synthetic_interactions(n_users, n_items, per_user, seed):
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n_users, 4))
    v = rng.normal(size=(n_items, 4))
    score = u @ v.T + rng.gumbel(size=(n_users, n_items))
    top = np.argsort(-score, axis=1)[:, : per_user + 1]
    train = {i: set(row[:-1].tolist()) for i, row in enumerate(top)}
    heldout = top[:, -1]
    return train, heldout


class BPRTriples(Dataset):
    """(user, positive item, sampled negative item)"""

    def __init__(self, interactions, n_items, seed=0):
        self.interactions = interactions
        self.n_items = n_items
        self.pairs = [(u, i) for u, items in interactions.items() for i in items]
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, k):
        u, i = self.pairs[k]
        j = int(self.rng.integers(self.n_items))
        while j in self.interactions[u]:
            j = int(self.rng.integers(self.n_items))
        return u, i, j


class MatrixFactorization(nn.Module):
    def __init__(self, n_users, n_items, dim=16):
        super().__init__()
        self.user = nn.Embedding(n_users, dim)
        self.item = nn.Embedding(n_items, dim)
        self.bias = nn.Embedding(n_items, 1)
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)
        nn.init.zeros_(self.bias.weight)

    def score(self, u, i):
        return (self.user(u) * self.item(i)).sum(-1) + self.bias(i).squeeze(-1)

    def forward(self, u, i, j):
        return self.score(u, i) - self.score(u, j)

    def all_scores(self):
        return self.user.weight @ self.item.weight.t() + self.bias.weight.t()


class AverageMeter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n=1):
        self.total += value * n
        self.count += n

    @property
    def avg(self):
        return self.total / max(1, self.count)


def train_epoch(model, loader, optimizer, device):
    model.train()
    losses = AverageMeter()
    for u, i, j in loader:
        u, i, j = u.to(device), i.to(device), j.to(device)
        diff = model(u, i, j)
        loss = -F.logsigmoid(diff).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        losses.update(loss.item(), u.size(0))
    return losses.avg


@torch.no_grad()
def hit_rate(model, seen_mask, heldout, k=10):
    model.eval()
    scores = model.all_scores().masked_fill(seen_mask, -1e9)
    top = scores.topk(k, dim=1).indices
    hits = (top == heldout[:, None]).any(1).float().mean()
    torch_xla.sync()
    return hits.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--users", type=int, default=80)
    ap.add_argument("--items", type=int, default=120)
    ap.add_argument("--per-user", type=int, default=8)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--lr", type=float, default=2.0)
    args = ap.parse_args()

    torch.manual_seed(5)
    device = torch_xla.device()

    train, heldout = synthetic_interactions(args.users, args.items, args.per_user, seed=5)
    data = BPRTriples(train, args.items, seed=5)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True)

    seen = torch.zeros(args.users, args.items, dtype=torch.bool)
    for user, items in train.items():
        seen[user, list(items)] = True
    seen = seen.to(device)
    heldout = torch.as_tensor(heldout).to(device)

    model = MatrixFactorization(args.users, args.items).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.8)

    best = 0.0
    for epoch in range(args.epochs):
        t0 = time.time()
        loss = train_epoch(model, loader, optimizer, device)
        hr = hit_rate(model, seen, heldout)
        best = max(best, hr)
        print(f"epoch {epoch}: bpr {loss:.4f} hr@10 {hr:.3f} best {best:.3f} ({time.time() - t0:.1f}s)")


if __name__ == "__main__":
    main()
