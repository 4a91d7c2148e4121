"""Card fraud scorer: focal loss training on daily shards.

Every day one shard is trained on; its last part is held back.  After each day the
model is scored on everything held back so far.
"""
import argparse
import sys

import torch
import torch_xla
from torch import nn


def make_shard(day, n, gen):
    """Transactions of one day: amount, hour, merchant risk, velocity, ... and the flag."""
    x = torch.randn(n, 12, generator=gen)
    x[:, 0] += 0.03 * day
    logit = 1.2 * x[:, 0] + 0.8 * x[:, 3] * x[:, 4] - 0.9 * x[:, 7] - 2.2
    y = (torch.rand(n, generator=gen) < torch.sigmoid(logit)).float()
    return x, y


class FocalLoss(nn.Module):
    """Binary focal loss; the focusing exponent may be moved while training."""

    def __init__(self, pos_weight=0.7, gamma=0.0):
        super().__init__()
        self.pos_weight = pos_weight
        self.gamma = gamma

    def forward(self, logits, y):
        p = torch.sigmoid(logits)
        pt = torch.where(y > 0.5, p, 1 - p).clamp(1e-5, 1 - 1e-5)
        w = torch.where(y > 0.5, self.pos_weight, 1 - self.pos_weight)
        return -(w * (1 - pt) ** self.gamma * pt.log()).mean()


class FocusSchedule:
    """Moves gamma linearly from ``lo`` to ``hi`` over the days of the run."""

    def __init__(self, criterion, lo, hi, days):
        self.criterion, self.lo, self.hi, self.days = criterion, lo, hi, days

    def begin_day(self, day):
        t = day / max(1, self.days - 1)
        self.criterion.gamma = self.lo + t * (self.hi - self.lo)


class Holdout:
    """Keeps the held back rows on the device, day after day."""

    def __init__(self):
        self.features, self.flags = [], []

    def add(self, x, y):
        self.features.append(x)
        self.flags.append(y)

    @torch.no_grad()
    def score(self, model):
        model.eval()
        s = model(torch.cat(self.features)).squeeze(1)
        y = torch.cat(self.flags)
        # probability that a fraud outranks a genuine payment
        wins = (s[:, None] > s[None, :]).float() * y[:, None] * (1 - y[None, :])
        auc = wins.sum() / (y.sum() * (1 - y).sum()).clamp(min=1)
        brier = (torch.sigmoid(s) - y).pow(2).mean()
        torch_xla.sync()
        model.train()
        return auc.item(), brier.item()


def batches(x, y, size):
    for i in range(0, len(x), size):
        yield x[i:i + size], y[i:i + size]


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--days", type=int, default=10)
    p.add_argument("--rows", type=int, default=240)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--held-back", type=int, default=48)
    p.add_argument("--gamma-start", type=float, default=0.5)
    p.add_argument("--gamma-end", type=float, default=2.5)
    p.add_argument("--lr", type=float, default=0.05)
    return p.parse_args(argv)


def run(args):
    gen = torch.Generator().manual_seed(42)
    torch.manual_seed(42)
    device = torch_xla.device()
    model = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Dropout(0.1), nn.Linear(24, 1)).to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=args.lr)
    criterion = FocalLoss()
    focus = FocusSchedule(criterion, args.gamma_start, args.gamma_end, args.days)
    holdout = Holdout()

    for day in range(args.days):
        focus.begin_day(day)
        x, y = make_shard(day, args.rows, gen)
        cut = args.rows - args.held_back
        losses = []
        for bx, by in batches(x[:cut], y[:cut], args.batch_size):
            bx, by = bx.to(device), by.to(device)
            opt.zero_grad()
            loss = criterion(model(bx).squeeze(1), by)
            loss.backward()
            opt.step()
            torch_xla.sync()
            losses.append(loss.detach())
        holdout.add(x[cut:].to(device), y[cut:].to(device))
        auc, brier = holdout.score(model)
        mean = sum(v.item() for v in losses) / len(losses)
        print(f"day {day:2d} gamma {criterion.gamma:.2f} loss {mean:.4f} "
              f"auc {auc:.3f} brier {brier:.4f} ({len(losses)} batches)")

    norms = {n: p.detach().norm() for n, p in model.named_parameters()}
    torch_xla.sync()
    print("weights:", {n: round(v.item(), 3) for n, v in norms.items()})


if __name__ == "__main__":
    run(parse(sys.argv[1:]))
