"""Sequence-to-sequence training on a toy "translation" corpus.

Sentences are grouped in three length buckets; every micro-batch comes from one
bucket, gradients are accumulated over a few micro-batches, and the dev set is
scored after a fixed number of updates.
"""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

PAD, BOS, VOCAB = 0, 1, 40
BUCKETS = (8, 12, 16)
ACCUM = 3
UPDATES = 16
DEV_EVERY = 4
BATCH = 6


def sentence(rng, longest):
    n = rng.randint(longest - 3, longest)
    return [rng.randrange(2, VOCAB) for _ in range(n)]


def translate(src):
    return [2 + (tok * 7) % (VOCAB - 2) for tok in reversed(src)]


def collate(pairs, length):
    src = torch.full((len(pairs), length), PAD)
    tgt = torch.full((len(pairs), length + 1), PAD)
    for i, (s, t) in enumerate(pairs):
        src[i, :len(s)] = torch.tensor(s)
        tgt[i, :len(t) + 1] = torch.tensor([BOS] + t)
    return src, tgt


class BucketedCorpus:
    def __init__(self, seed, weights=(3, 4, 3)):
        self.rng, self.weights = random.Random(seed), weights

    def batch(self, length):
        src = [sentence(self.rng, length) for _ in range(BATCH)]
        return collate([(s, translate(s)) for s in src], length)

    def __iter__(self):
        while True:
            yield self.batch(self.rng.choices(BUCKETS, self.weights)[0])


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.kv = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, memory, mask):
        split = lambda z: z.view(z.size(0), z.size(1), self.heads, -1).transpose(1, 2)
        q = split(self.q(x))
        k, v = (split(z) for z in self.kv(memory).chunk(2, dim=-1))
        score = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        score = score.masked_fill(mask, -1e4)
        out = (score.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return self.proj(out)


class Block(nn.Module):
    def __init__(self, dim, heads, cross):
        super().__init__()
        self.self_attn, self.n1 = Attention(dim, heads), nn.LayerNorm(dim)
        self.cross_attn = Attention(dim, heads) if cross else None
        self.n2 = nn.LayerNorm(dim) if cross else None
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.n3 = nn.LayerNorm(dim)

    def forward(self, x, self_mask, memory=None, memory_mask=None):
        h = self.n1(x)
        x = x + self.self_attn(h, h, self_mask)
        if self.cross_attn is not None:
            x = x + self.cross_attn(self.n2(x), memory, memory_mask)
        return x + self.ff(self.n3(x))


class Translator(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(max(BUCKETS) + 1, dim))
        self.enc, self.dec = Block(dim, heads, False), Block(dim, heads, True)
        self.out = nn.Linear(dim, VOCAB)

    def forward(self, src, tgt_in):
        pad = (src == PAD)[:, None, None, :]
        n = tgt_in.size(1)
        causal = torch.triu(torch.ones(n, n, dtype=torch.bool, device=src.device), 1)
        memory = self.enc(self.tok(src) + self.pos[:src.size(1)], pad)
        h = self.dec(self.tok(tgt_in) + self.pos[:n], causal[None, None], memory, pad)
        return self.out(h)


def loss_fn(model, src, tgt):
    logits = model(src, tgt[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(),
                           ignore_index=PAD, label_smoothing=0.1)


@torch.no_grad()
def dev_score(model, dev):
    model.eval()
    scores = []
    for src, tgt in dev:
        scores.append(loss_fn(model, src, tgt))
        torch_xla.sync()
    model.train()
    return [round(s.item(), 3) for s in scores]


def main():
    torch.manual_seed(17)
    device = torch_xla.device()
    model = Translator().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98))
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min((s + 1) / 6, (6 / (s + 1)) ** 0.5))
    held_out = BucketedCorpus(seed=99)
    dev = [tuple(x.to(device) for x in held_out.batch(n)) for n in BUCKETS]
    stream = iter(BucketedCorpus(seed=4))

    for update in range(1, UPDATES + 1):
        for _ in range(ACCUM):
            src, tgt = (x.to(device) for x in next(stream))
            (loss_fn(model, src, tgt) / ACCUM).backward()
            torch_xla.sync()
        opt.step()
        opt.zero_grad()
        sched.step()
        torch_xla.sync()
        if update % DEV_EVERY == 0:
            print(f"update {update}: dev {dev_score(model, dev)} lr {sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
