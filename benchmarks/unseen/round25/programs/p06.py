"""Sentence classification with length buckets, two-step gradient accumulation and a validation pass per epoch."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, PAD = 200, 0
BUCKETS = (8, 16, 24)
BATCH, ACCUM = 16, 2


def synth_corpus(n, rng):
    docs = []
    for _ in range(n):
        label = rng.randrange(3)
        length = rng.randint(3, BUCKETS[-1])
        lo = 2 + label * 50
        toks = [rng.randrange(lo, lo + 80) for _ in range(length)]
        docs.append((toks, label))
    return docs


def bucket_of(length):
    return next(b for b in BUCKETS if length <= b)


def collate(docs, width):
    ids = torch.full((len(docs), width), PAD, dtype=torch.long)
    for i, (toks, _) in enumerate(docs):
        ids[i, :len(toks)] = torch.tensor(toks)
    return ids, torch.tensor([y for _, y in docs])


def bucket_batches(docs, rng):
    """Full batches only; every group of ACCUM batches comes from one bucket."""
    pools = {b: [] for b in BUCKETS}
    for d in docs:
        pools[bucket_of(len(d[0]))].append(d)
    groups = []
    for width, pool in pools.items():
        rng.shuffle(pool)
        span = BATCH * ACCUM
        for i in range(0, len(pool) - span + 1, span):
            groups.append([collate(pool[i + j * BATCH:i + (j + 1) * BATCH], width) for j in range(ACCUM)])
    rng.shuffle(groups)
    return groups


class Encoder(nn.Module):
    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.pos = nn.Parameter(torch.randn(BUCKETS[-1], dim) * 0.02)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim))
        self.cls = nn.Linear(dim, 3)
        self.heads = heads

    def forward(self, ids):
        b, t = ids.shape
        keep = ids != PAD
        x = self.tok(ids) + self.pos[:t]
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        att = att.masked_fill(~keep[:, None, None, :], -1e4).softmax(-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, t, -1))
        x = x + self.mlp(self.n2(x))
        w = keep.unsqueeze(-1).to(x.dtype)
        return self.cls((x * w).sum(1) / w.sum(1))


def validate(model, batches, device):
    model.eval()
    correct = 0
    with torch.no_grad():
        for ids, y in batches:
            hit = (model(ids.to(device)).argmax(-1) == y.to(device)).sum()
            xm.mark_step()
            correct += hit.item()
    model.train()
    return correct / (len(batches) * BATCH)


def main():
    rng = random.Random(5)
    torch.manual_seed(5)
    device = torch_xla.device()
    train_docs, val_docs = synth_corpus(700, rng), synth_corpus(160, rng)
    val = [collate(val_docs[i:i + BATCH], BUCKETS[-1]) for i in range(0, 160, BATCH)]
    model = Encoder().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min((s + 1) / 20, 0.97 ** (s / 4)))
    xm.mark_step()
    for epoch in range(5):
        losses = []
        for group in bucket_batches(train_docs, rng):
            opt.zero_grad()
            for ids, y in group:
                loss = F.cross_entropy(model(ids.to(device)), y.to(device)) / ACCUM
                loss.backward()
                xm.mark_step()
            opt.step()
            xm.mark_step()
            sched.step()
            losses.append(loss.detach())
        mean = sum(l.item() for l in losses) / len(losses) * ACCUM
        print(f"epoch {epoch} loss {mean:.3f} val acc {validate(model, val, device):.3f}")


if __name__ == "__main__":
    main()
