"""Masked LM style pretraining on length-bucketed sentences, with gradient accumulation
inside a bucket and a validation pass after every epoch."""
from collections import defaultdict
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, PAD, MASK = 64, 0, 1
BUCKETS = (8, 16, 24)
BATCH = 8
ACCUM = 2


class TinyBert(nn.Module):
    def __init__(self, d=16, heads=2):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, d)
        self.pos = nn.Embedding(max(BUCKETS), d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.head = nn.Linear(d, VOCAB)
        self.heads = heads

    def forward(self, ids):
        b, n = ids.shape
        x = self.tok(ids) + self.pos.weight[:n]
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        att = att.masked_fill((ids == PAD)[:, None, None], -1e4).softmax(-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, n, -1))
        x = x + self.ff(self.n2(x))
        return self.head(x)


def corpus(n, seed):
    rng = random.Random(seed)
    out = []
    for _ in range(n):
        length = rng.randint(4, max(BUCKETS))
        start = rng.randint(2, VOCAB - 1)
        out.append([2 + (start + 3 * i) % (VOCAB - 2) for i in range(length)])
    return out


def bucketed(sentences, rng):
    """Yields groups of ACCUM batches that all have the same padded length."""
    by_bucket = defaultdict(list)
    for s in sentences:
        width = next(b for b in BUCKETS if len(s) <= b)
        by_bucket[width].append(s + [PAD] * (width - len(s)))
    groups = []
    for width, rows in by_bucket.items():
        rng.shuffle(rows)
        size = BATCH * ACCUM
        for i in range(0, len(rows) - size + 1, size):
            chunk = torch.tensor(rows[i:i + size])
            groups.append(chunk.split(BATCH))
    rng.shuffle(groups)
    return groups


def corrupt(ids, gen):
    pick = (torch.rand(ids.shape, generator=gen) < 0.2) & (ids != PAD)
    return ids.masked_fill(pick, MASK), pick.float()


def mlm_loss(model, ids, target, weight):
    nll = F.cross_entropy(model(ids).flatten(0, 1), target.flatten(), reduction="none")
    return (nll * weight.flatten()).sum() / weight.sum().clamp(min=1.0)


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    rng = random.Random(0)
    device = torch_xla.device()
    train_set, valid_set = corpus(300, 1), corpus(120, 2)
    model = TinyBert().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    opt.zero_grad()
    torch_xla.sync()
    for epoch in range(6):
        model.train()
        for group in bucketed(train_set, rng):
            for i, ids in enumerate(group):
                noisy, w = corrupt(ids, gen)
                loss = mlm_loss(model, noisy.to(device), ids.to(device), w.to(device)) / ACCUM
                loss.backward()
                if i + 1 == ACCUM:
                    opt.step()
                    opt.zero_grad()
                torch_xla.sync()
        model.eval()
        losses = []
        with torch.no_grad():
            for group in bucketed(valid_set, random.Random(5)):
                for ids in group:
                    noisy, w = corrupt(ids, gen)
                    v = mlm_loss(model, noisy.to(device), ids.to(device), w.to(device))
                    torch_xla.sync()
                    losses.append(v.item())
        print(f"epoch {epoch}: valid {sum(losses) / len(losses):.4f}")


if __name__ == "__main__":
    main()
