import math
import random
from collections import defaultdict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Sampler
import torch_xla
import torch_xla.core.xla_model as xm

N_ITEMS = 120
BUCKETS = (8, 16, 24)


class Histories(Dataset):
    """Click histories, left padded to the smallest bucket that holds them."""

    def __init__(self, n_users, seed):
        rng = np.random.default_rng(seed)
        self.rows = []
        for _ in range(n_users):
            n = int(rng.integers(4, BUCKETS[-1] + 2))
            start, stride = rng.integers(0, N_ITEMS), rng.integers(1, 4)
            seq = (start + stride * np.arange(n) + (rng.random(n) < 0.1)) % N_ITEMS + 1
            self.rows.append(seq.astype(np.int64))

    def bucket(self, i):
        n = len(self.rows[i]) - 1
        return next(b for b in BUCKETS if n <= b)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, key):
        i, width = key
        seq = self.rows[i][-(width + 1):]
        inp, tgt = np.zeros(width, np.int64), np.zeros(width, np.int64)
        inp[width - len(seq) + 1:] = seq[:-1]
        tgt[width - len(seq) + 1:] = seq[1:]
        return torch.from_numpy(inp), torch.from_numpy(tgt)


class BucketBatches(Sampler):

    def __init__(self, data, batch_size, seed=0):
        self.data, self.batch_size = data, batch_size
        self.rng = random.Random(seed)

    def __iter__(self):
        groups = defaultdict(list)
        for i in range(len(self.data)):
            groups[self.data.bucket(i)].append(i)
        batches = []
        for width, ids in groups.items():
            self.rng.shuffle(ids)
            usable = len(ids) - len(ids) % self.batch_size
            for k in range(0, usable, self.batch_size):
                batches.append([(i, width) for i in ids[k:k + self.batch_size]])
        self.rng.shuffle(batches)
        return iter(batches)


class SeqRec(nn.Module):

    def __init__(self, dim=24):
        super().__init__()
        self.item = nn.Embedding(N_ITEMS + 1, dim, padding_idx=0)
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, seq):
        h = self.n1(self.item(seq))
        T = seq.size(1)
        causal = torch.ones(T, T, dtype=torch.bool, device=seq.device).tril()
        att = self.q(h) @ self.k(h).transpose(1, 2) / math.sqrt(h.size(-1))
        att = att.masked_fill(~(causal & (seq > 0).unsqueeze(1)), -1e4).softmax(-1)
        h = h + att @ self.v(h)
        h = h + self.ff(self.n2(h))
        return h @ self.item.weight.t()


def loss_fn(logits, tgt):
    return F.cross_entropy(logits.flatten(0, 1), tgt.flatten(), ignore_index=0)


@torch.no_grad()
def evaluate(model, data, device, batch_size=32):
    model.eval()
    hits = []
    keys = [(i, BUCKETS[-1]) for i in range(len(data))]
    for k in range(0, len(keys), batch_size):
        inp, tgt = (torch.stack(t).to(device) for t in zip(*[data[key] for key in keys[k:k + batch_size]]))
        top = model(inp)[:, -1].topk(10, dim=-1).indices
        hits.append((top == tgt[:, -1:]).any(-1).sum())
        torch_xla.sync()
    return sum(h.item() for h in hits) / len(data)


def main(epochs=8):
    torch.manual_seed(2)
    device = xm.xla_device()
    train, valid = Histories(320, 0), Histories(64, 1)
    loader = DataLoader(train, batch_sampler=BucketBatches(train, 16))
    model = SeqRec().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    torch_xla.sync()
    for epoch in range(epochs):
        model.train()
        losses = []
        for inp, tgt in loader:
            inp, tgt = inp.to(device), tgt.to(device)
            opt.zero_grad()
            loss = loss_fn(model(inp), tgt)
            loss.backward()
            opt.step()
            torch_xla.sync()
            losses.append(loss.detach())
        recall = evaluate(model, valid, device)
        print(f"epoch {epoch}: loss {np.mean([l.item() for l in losses]):.3f} recall@10 {recall:.3f}")


if __name__ == "__main__":
    main()
