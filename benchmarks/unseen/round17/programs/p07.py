"""Implicit-feedback factorisation for a library lending service.

Trains user and title vectors with sampled negatives. Progress is written at
logarithmically spaced steps, which is what our dashboards expect.
"""
import argparse
import csv
import sys

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla


class Lending:
    """Borrowing events of a synthetic library with a few latent tastes."""

    def __init__(self, users, titles, seed):
        self.rng = np.random.default_rng(seed)
        tastes = 4
        self.u = self.rng.dirichlet(np.ones(tastes) * 0.3, users)
        self.t = self.rng.dirichlet(np.ones(tastes) * 0.3, titles)
        self.users, self.titles = users, titles

    def events(self, n):
        who = self.rng.integers(0, self.users, n)
        cand = self.rng.integers(0, self.titles, (n, 8))
        score = np.einsum("nk,nck->nc", self.u[who], self.t[cand])
        got = cand[np.arange(n), score.argmax(1)]
        return who, got, self.rng.integers(0, self.titles, n)

    def tensors(self, n, device):
        return [torch.from_numpy(a).to(device) for a in self.events(n)]


class Factors(nn.Module):
    def __init__(self, users, titles, dim):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.title = nn.Embedding(titles, dim)
        self.bias = nn.Embedding(titles, 1)
        for e in (self.user, self.title):
            nn.init.normal_(e.weight, std=0.1)
        nn.init.zeros_(self.bias.weight)

    def forward(self, who, what):
        return (self.user(who) * self.title(what)).sum(-1) + self.bias(what).squeeze(-1)


class Progress:
    """Knows at which steps the dashboards want a row."""

    def __init__(self, last, per_decade=4, stream=sys.stdout):
        marks = np.logspace(0, np.log10(last), int(per_decade * np.log10(last)) + 1)
        self.marks = sorted({int(round(m)) for m in marks} | {last})
        self.out = csv.writer(stream)
        self.out.writerow(["step", "loss", "auc"])

    def due(self, step):
        return step in self.marks

    def row(self, step, loss, auc):
        self.out.writerow([step, f"{loss:.4f}", f"{auc:.3f}"])


def bpr(model, who, got, neg):
    return -F.logsigmoid(model(who, got) - model(who, neg)).mean()


class Session:
    def __init__(self, args):
        self.device = torch_xla.device()
        self.data = Lending(args.users, args.titles, args.seed)
        self.model = Factors(args.users, args.titles, args.dim).to(self.device)
        self.opt = torch.optim.Adagrad(self.model.parameters(), lr=args.lr)
        self.held = self.data.tensors(256, self.device)
        self.batch = args.batch
        torch_xla.sync()

    def step(self):
        who, got, neg = self.data.tensors(self.batch, self.device)
        self.opt.zero_grad()
        loss = bpr(self.model, who, got, neg)
        loss.backward()
        self.opt.step()
        return loss.detach()

    @torch.no_grad()
    def auc(self):
        who, got, neg = self.held
        better = self.model(who, got) > self.model(who, neg)
        return better.float().mean()

    def fit(self, steps):
        progress = Progress(steps)
        for step in range(1, steps + 1):
            loss = self.step()
            if progress.due(step):
                torch_xla.sync()
                progress.row(step, loss.item(), self.auc().item())

    def export(self):
        with torch.no_grad():
            vec = F.normalize(self.model.title.weight, dim=-1)
            near = (vec @ vec.t()).topk(3, dim=-1).indices
        return near.cpu().numpy()


def main(argv=None):
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--users", type=int, default=120)
    ap.add_argument("--titles", type=int, default=80)
    ap.add_argument("--dim", type=int, default=8)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--lr", type=float, default=0.1)
    ap.add_argument("--steps", type=int, default=50)
    ap.add_argument("--seed", type=int, default=3)
    args = ap.parse_args(argv)
    torch.manual_seed(args.seed)
    session = Session(args)
    session.fit(args.steps)
    print("neighbours of title 0:", session.export()[0].tolist())


if __name__ == "__main__":
    main()
