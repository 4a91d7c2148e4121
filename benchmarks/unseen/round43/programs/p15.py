"""Knowledge-graph completion (RotatE) on a synthetic biomedical graph.

Entities of a batch (heads, tails, shared corruptions) are looked up once and
scored through local ids, which keeps the gather small. Hard corruptions come
in slowly: at first the loss sees only a few of the highest scoring ones.
"""
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

ENTITIES = 800
RELATIONS = 6
DIM = 32
BATCH = 64
NEGATIVES = 128
STEPS = 30
GAMMA = 9.0


def make_triples(n=6000, seed=3):
    rng = np.random.default_rng(seed)
    pop = 1.0 / np.arange(1, ENTITIES + 1) ** 0.7
    pop /= pop.sum()
    h = rng.choice(ENTITIES, n, p=pop)
    r = rng.integers(0, RELATIONS, n)
    t = (h * 7 + r * 131 + rng.integers(0, 5, n)) % ENTITIES
    return np.stack([h, r, t], 1)


class Sampler:
    def __init__(self, triples, seed):
        self.triples = triples
        self.rng = np.random.default_rng(seed)

    def draw(self):
        rows = self.triples[self.rng.integers(0, len(self.triples), BATCH)]
        neg = self.rng.integers(0, ENTITIES, NEGATIVES)
        return rows[:, 0], rows[:, 1], rows[:, 2], neg


def to_local(head, tail, neg):
    """Global ids -> table of the entities in use, and positions in that table."""
    flat = np.concatenate([head, tail, neg])
    used, local = np.unique(flat, return_inverse=True)
    local = local.reshape(-1)
    return used, local[:BATCH], local[BATCH:2 * BATCH], local[2 * BATCH:]


class RotatE(nn.Module):
    def __init__(self):
        super().__init__()
        span = (GAMMA + 2.0) / DIM
        self.entity = nn.Embedding(ENTITIES, 2 * DIM)
        self.phase = nn.Embedding(RELATIONS, DIM)
        nn.init.uniform_(self.entity.weight, -span, span)
        nn.init.uniform_(self.phase.weight, -math.pi, math.pi)

    def rotate(self, ent, rel):
        re, im = ent.chunk(2, dim=-1)
        c, s = torch.cos(self.phase(rel)), torch.sin(self.phase(rel))
        return torch.cat([re * c - im * s, re * s + im * c], dim=-1)

    @staticmethod
    def gap(a, b):
        re, im = (a - b).chunk(2, dim=-1)
        return (re.square() + im.square() + 1e-9).sqrt().sum(-1)

    def forward(self, used, head, rel, tail, neg):
        table = self.entity(used)
        moved = self.rotate(table[head], rel)
        pos = GAMMA - self.gap(moved, table[tail])
        corrupt = GAMMA - self.gap(moved.unsqueeze(1), table[neg].unsqueeze(0))
        return pos, corrupt


def hard_fraction(step, lo=0.05, hi=0.75):
    t = step / max(1, STEPS - 1)
    return lo + (hi - lo) * t


def loss_fn(pos, corrupt, step):
    k = max(1, int(hard_fraction(step) * corrupt.size(1)))
    hard, _ = torch.topk(corrupt, k, dim=1)
    weight = torch.softmax(hard.detach(), dim=1)
    neg_term = -(weight * F.logsigmoid(-hard)).sum(1).mean()
    return 0.5 * (neg_term - F.logsigmoid(pos).mean())


@torch.no_grad()
def mean_rank(model, triples, device):
    h, r, t = (torch.from_numpy(triples[:, i].copy()).to(device) for i in range(3))
    ent = model.entity.weight
    moved = model.rotate(ent[h], r)
    score = -model.gap(moved.unsqueeze(1), ent.unsqueeze(0))
    gold = score.gather(1, t.unsqueeze(1))
    rank = (score > gold).sum(1).float().mean() + 1
    torch_xla.sync()
    return rank.item()


def main():
    torch.manual_seed(31)
    device = torch_xla.device()
    triples = make_triples()
    train, valid = triples[:-32], triples[-32:]
    sampler = Sampler(train, seed=31)

    model = RotatE().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.1)
    torch_xla.sync()

    began = time.time()
    for step in range(STEPS):
        head, rel, tail, neg = sampler.draw()
        used, head, tail, neg = to_local(head, tail, neg)
        used, head, rel, tail, neg = (
            torch.as_tensor(a, dtype=torch.long).to(device)
            for a in (used, head, rel, tail, neg))

        opt.zero_grad()
        pos, corrupt = model(used, head, rel, tail, neg)
        loss = loss_fn(pos, corrupt, step)
        loss.backward()
        opt.step()
        torch_xla.sync()

        if (step + 1) % 10 == 0:
            print(f"step {step + 1:3d} loss {loss.item():.4f} "
                  f"valid mean rank {mean_rank(model, valid, device):.1f} "
                  f"{time.time() - began:.1f}s")


if __name__ == "__main__":
    main()
