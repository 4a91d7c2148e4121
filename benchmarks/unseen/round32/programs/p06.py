"""Implicit-feedback recommender: matrix factorisation with BPR loss and a drift penalty on the item space."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla.distributed.parallel_loader import MpDeviceLoader


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--users", type=int, default=60)
    p.add_argument("--items", type=int, default=90)
    p.add_argument("--dim", type=int, default=12)
    p.add_argument("--batch-size", type=int, default=48)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--drift-weight", type=float, default=0.1)
    p.add_argument("--momentum", type=float, default=0.9)
    return p.parse_args([])


def simulate_clicks(users, items, seed):
    """Low-rank preferences; every user clicks on the items with the largest noisy score."""
    rng = np.random.default_rng(seed)
    score = rng.normal(size=(users, 4)) @ rng.normal(size=(4, items))
    score += 0.5 * rng.gumbel(size=score.shape)
    clicked = np.argsort(-score, axis=1)[:, :8]
    pairs = [(u, int(i)) for u in range(users) for i in clicked[u]]
    return np.array(pairs), clicked


class TripletDataset(torch.utils.data.Dataset):
    def __init__(self, pairs, clicked, items, seed):
        self.pairs = pairs
        self.items = items
        self.seen = [set(row.tolist()) for row in clicked]
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, idx):
        u, pos = self.pairs[idx]
        neg = int(self.rng.integers(self.items))
        while neg in self.seen[u]:
            neg = int(self.rng.integers(self.items))
        return int(u), int(pos), neg


class DriftPenalty:
    """Keeps the mean item vector close to its own moving average (slows popularity drift)."""

    def __init__(self, dim, momentum, device):
        self.momentum = momentum
        self.average = torch.zeros(dim, device=device)

    def __call__(self, table):
        center = table.mean(dim=0)
        self.average = torch.lerp(self.average, center, 1 - self.momentum)
        return (center - self.average).square().sum()


class BPRModel(nn.Module):
    def __init__(self, users, items, dim):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        self.bias = nn.Embedding(items, 1)
        nn.init.normal_(self.user.weight, std=0.1)
        nn.init.normal_(self.item.weight, std=0.1)
        nn.init.zeros_(self.bias.weight)

    def score(self, u, i):
        return (self.user(u) * self.item(i)).sum(dim=1) + self.bias(i).squeeze(1)

    def forward(self, u, pos, neg):
        return self.score(u, pos) - self.score(u, neg)

    def rank_all(self):
        return self.user.weight @ self.item.weight.t() + self.bias.weight.t()


@torch.no_grad()
def recall_at(model, clicked, k):
    top = model.rank_all().topk(k, dim=1).indices.cpu().numpy()
    hits = [len(set(t.tolist()) & set(c.tolist())) for t, c in zip(top, clicked)]
    return sum(hits) / clicked.size


def main():
    args = get_args()
    torch.manual_seed(17)
    device = torch_xla.device()
    pairs, clicked = simulate_clicks(args.users, args.items, seed=4)
    data = TripletDataset(pairs, clicked, args.items, seed=5)
    loader = torch.utils.data.DataLoader(
        data, batch_size=args.batch_size, shuffle=True, drop_last=True,
        generator=torch.Generator().manual_seed(6))
    device_loader = MpDeviceLoader(loader, device)

    model = BPRModel(args.users, args.items, args.dim).to(device)
    drift = DriftPenalty(args.dim, args.momentum, device)
    opt = torch.optim.Adagrad(model.parameters(), lr=args.lr)

    for epoch in range(args.epochs):
        running = torch.zeros((), device=device)
        for users, pos, neg in device_loader:
            margin = model(users, pos, neg)
            loss = -F.logsigmoid(margin).mean()
            loss = loss + args.drift_weight * drift(model.item.weight)
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt)
            running += loss.detach()
        recall = recall_at(model, clicked, 8)
        print(f"epoch {epoch} loss {running.item() / len(loader):.4f} recall@8 {recall:.3f}")


if __name__ == "__main__":
    main()
