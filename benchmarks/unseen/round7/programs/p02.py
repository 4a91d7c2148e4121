"""Character language model on length buckets, with a validation pass per epoch."""
import math
import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BUCKETS = (12, 20, 32)
BATCH = 8
VOCAB = 40
PAD = 0


def make_corpus(n, seed):
    rng = random.Random(seed)
    corpus = []
    for _ in range(n):
        length = rng.randint(6, 32)
        start = rng.randint(1, VOCAB - 1)
        stride = rng.choice([1, 2, 3])
        corpus.append([1 + (start + stride * i) % (VOCAB - 1) for i in range(length)])
    return corpus


class BucketSampler:
    """Groups sentences by the smallest bucket they fit and yields full batches only."""

    def __init__(self, corpus, seed):
        self.corpus = corpus
        self.rng = random.Random(seed)

    def __iter__(self):
        order = list(range(len(self.corpus)))
        self.rng.shuffle(order)
        waiting = defaultdict(list)
        for i in order:
            width = next(b for b in BUCKETS if len(self.corpus[i]) <= b)
            waiting[width].append(self.corpus[i])
            if len(waiting[width]) == BATCH:
                rows = waiting.pop(width)
                yield torch.tensor([r + [PAD] * (width - len(r)) for r in rows])


class CharGRU(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.conv = nn.Conv1d(dim, 2 * dim, 3)
        self.mix = nn.Conv1d(dim, dim, 3)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, ids):
        h = self.emb(ids).transpose(1, 2)
        a, g = self.conv(F.pad(h, (2, 0))).chunk(2, dim=1)
        h = h + a * torch.sigmoid(g)
        h = h + F.gelu(self.mix(F.pad(h, (2, 0))))
        return self.out(self.drop(h.transpose(1, 2)))


def token_loss(model, ids):
    logits = model(ids[:, :-1])
    return F.cross_entropy(logits.reshape(-1, VOCAB), ids[:, 1:].reshape(-1), ignore_index=PAD)


class WarmupCosine:
    def __init__(self, optimizer, base, warmup, total):
        self.optimizer, self.base, self.warmup, self.total = optimizer, base, warmup, total
        self.n = 0

    def step(self):
        self.n += 1
        if self.n < self.warmup:
            lr = self.base * self.n / self.warmup
        else:
            done = (self.n - self.warmup) / max(1, self.total - self.warmup)
            lr = self.base * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))
        for group in self.optimizer.param_groups:
            group['lr'] = lr


def train_epoch(model, optimizer, schedule, batches, device):
    model.train()
    last = None
    for ids in batches:
        schedule.step()
        ids = ids.to(device)
        optimizer.zero_grad()
        loss = token_loss(model, ids)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch_xla.sync()
        last = loss
    return last.item()


@torch.no_grad()
def validate(model, batches, device):
    model.eval()
    losses = []
    for ids in batches:
        loss = token_loss(model, ids.to(device))
        torch_xla.sync()
        losses.append(loss.item())
    return sum(losses) / len(losses)


def main():
    torch.manual_seed(3)
    device = torch_xla.device()
    train, valid = BucketSampler(make_corpus(112, 1), 5), list(BucketSampler(make_corpus(48, 2), 6))
    model = CharGRU().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = WarmupCosine(optimizer, 3e-3, 6, 80)
    torch_xla.sync()
    for epoch in range(4):
        loss = train_epoch(model, optimizer, schedule, train, device)
        val = validate(model, valid, device)
        print(f'epoch {epoch} train {loss:.3f} valid {val:.3f} ppl {math.exp(val):.1f}')


if __name__ == '__main__':
    main()
