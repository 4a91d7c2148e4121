"""Intent classification with length-bucketed batches, gradient accumulation and periodic evaluation."""
import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB = 120
PAD = 0
BUCKETS = (8, 16, 24)
CLASSES = 5


def make_corpus(n, seed):
    g = random.Random(seed)
    corpus = []
    for _ in range(n):
        label = g.randrange(CLASSES)
        length = g.randint(4, BUCKETS[-1])
        toks = [g.randrange(1, VOCAB) if g.random() < 0.7 else 1 + label * 3 for _ in range(length)]
        corpus.append((toks, label))
    return corpus


class BucketBatcher:
    """Groups samples by the smallest bucket that holds them; every batch of a bucket has one shape."""

    def __init__(self, corpus, batch_size, shuffle, seed=0):
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.rng = random.Random(seed)
        self.groups = defaultdict(list)
        for toks, label in corpus:
            width = next(b for b in BUCKETS if len(toks) <= b)
            self.groups[width].append((toks, label))

    def __iter__(self):
        batches = []
        for width in BUCKETS:
            rows = list(self.groups[width])
            if self.shuffle:
                self.rng.shuffle(rows)
            usable = len(rows) - len(rows) % self.batch_size
            for i in range(0, usable, self.batch_size):
                batches.append((width, rows[i:i + self.batch_size]))
        if self.shuffle:
            self.rng.shuffle(batches)
        for width, rows in batches:
            ids = torch.full((len(rows), width), PAD)
            for r, (toks, _) in enumerate(rows):
                ids[r, :len(toks)] = torch.tensor(toks)
            yield ids, torch.tensor([label for _, label in rows])


class Encoder(nn.Module):
    def __init__(self, dim=24, heads=2):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.pos = nn.Embedding(BUCKETS[-1], dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.ln = nn.LayerNorm(dim)
        self.cls = nn.Linear(dim, CLASSES)
        self.heads = heads

    def forward(self, ids):
        b, t = ids.shape
        keep = (ids != PAD)
        x = self.tok(ids) + self.pos.weight[:t]
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        att = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        att = att.masked_fill(~keep[:, None, None, :], -1e9).softmax(-1)
        y = (att @ v).transpose(1, 2).reshape(b, t, -1)
        x = self.ln(x + self.proj(y))
        m = keep.unsqueeze(-1).to(x.dtype)
        return self.cls((x * m).sum(1) / m.sum(1))


@torch.no_grad()
def evaluate(model, batches, device):
    model.eval()
    hits = torch.zeros((), dtype=torch.int64).to(device)
    total = 0
    for ids, labels in batches:
        pred = model(ids.to(device)).argmax(-1)
        hits += (pred == labels.to(device)).sum()
        total += len(labels)
        xm.mark_step()
    model.train()
    return hits.item() / total


def main(accum=4, epochs=4, lr=5e-3):
    torch.manual_seed(0)
    device = torch_xla.device()
    train = BucketBatcher(make_corpus(400, 1), batch_size=8, shuffle=True)
    valid = BucketBatcher(make_corpus(120, 2), batch_size=8, shuffle=False)
    model = Encoder().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)

    micro = 0
    for epoch in range(epochs):
        for ids, labels in train:
            loss = F.cross_entropy(model(ids.to(device)), labels.to(device))
            (loss / accum).backward()
            xm.mark_step()
            micro += 1
            if micro % accum == 0:
                opt.step()
                opt.zero_grad(set_to_none=False)
                xm.mark_step()
        acc = evaluate(model, valid, device)
        print(f"epoch {epoch} loss {loss.item():.3f} val_acc {acc:.3f}")


if __name__ == "__main__":
    main()
