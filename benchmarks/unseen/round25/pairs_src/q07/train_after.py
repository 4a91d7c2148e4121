#!/usr/bin/env python
# SimSiam-like pretraining on tabular rows with feature corruption views.
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=24)
    p.add_argument("--features", type=int, default=18)
    p.add_argument("--dim", type=int, default=32)
    p.add_argument("--pred-dim", type=int, default=8)
    p.add_argument("--corrupt", type=float, default=0.3)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--steps", type=int, default=4)
    return p.parse_args([])


class Projector(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc1 = nn.Linear(d, d, bias=False)
        self.bn1 = nn.BatchNorm1d(d)
        self.fc2 = nn.Linear(d, d, bias=False)
        self.bn2 = nn.BatchNorm1d(d, affine=False)

    def forward(self, x):
        return self.bn2(self.fc2(F.relu(self.bn1(self.fc1(x)))))


class SimSiam(nn.Module):
    def __init__(self, features, dim, pred_dim):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(features, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.projector = Projector(dim)
        self.predictor = nn.Sequential(nn.Linear(dim, pred_dim), nn.ReLU(), nn.Linear(pred_dim, dim))

    def embed(self, view):
        z = self.projector(self.encoder(view))
        return self.predictor(z), z

    def forward(self, view_a, view_b):
        pa, za = self.embed(view_a)
        pb, zb = self.embed(view_b)
        return pa, pb, za, zb


def neg_cosine(p, z):
    return -F.cosine_similarity(p, z, dim=-1).mean()


def corrupt(x, rate, gen):
    perm = torch.randperm(x.size(0), generator=gen)
    take = torch.rand(x.shape, generator=gen) < rate
    return torch.where(take, x[perm], x)


@torch.no_grad()
def collapse_monitor(z):
    z = F.normalize(z, dim=-1)
    return z.std(dim=0).mean()


def main():
    args = parse()
    torch.manual_seed(9)
    gen = torch.Generator().manual_seed(10)
    device = xm.xla_device()
    table = torch.randn(512, args.features) @ torch.randn(args.features, args.features) * 0.3

    model = SimSiam(args.features, args.dim, args.pred_dim).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    xm.mark_step()

    for step in range(args.steps):
        rows = table[torch.randint(0, table.size(0), (args.rows,), generator=gen)]
        a = corrupt(rows, args.corrupt, gen).to(device)
        b = corrupt(rows, args.corrupt, gen).to(device)

        optimizer.zero_grad()
        pa, pb, za, zb = model(a, b)
        loss = 0.5 * (neg_cosine(pa, zb) + neg_cosine(pb, za))
        loss.backward()
        optimizer.step()
        spread = collapse_monitor(za)
        xm.mark_step()
        print(f"{step} loss {loss.item():.4f} spread {spread.item():.4f}")


if __name__ == "__main__":
    main()
