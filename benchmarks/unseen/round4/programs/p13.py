"""Session-based recommendation: histories go into three length buckets, each bucket with its own fixed batch."""
import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

ITEMS = 150
BUCKETS = (8, 16, 32)
BATCH = 8


def sessions(n, seed):
    r = random.Random(seed)
    out = []
    for _ in range(n):
        cur, s = r.randrange(1, ITEMS), []
        for _ in range(r.choice([5, 7, 12, 15, 20, 30])):
            s.append(cur)
            cur = 1 + (cur * 7 + r.randrange(3)) % (ITEMS - 1)
        out.append((s, cur))
    return out


class BucketBatcher:
    def __init__(self, data, seed):
        self.data, self.rng = data, random.Random(seed)

    def _bucket(self, n):
        return next(b for b in BUCKETS if n <= b)

    def __iter__(self):
        pool = defaultdict(list)
        order = list(self.data)
        self.rng.shuffle(order)
        for hist, nxt in order:
            b = self._bucket(len(hist))
            pool[b].append((hist + [0] * (b - len(hist)), nxt))
            if len(pool[b]) == BATCH:
                x, y = zip(*pool.pop(b))
                yield torch.tensor(x), torch.tensor(y)


class SessionModel(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.emb = nn.Embedding(ITEMS, width, padding_idx=0)
        self.att = nn.Linear(width, 1)
        self.mix = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x):
        live = x > 0
        e = self.emb(x)
        w = self.att(e).squeeze(-1).masked_fill(~live, -1e9).softmax(1)
        last = (live.long().sum(1) - 1)[:, None, None].expand(-1, 1, e.shape[-1])
        h = torch.cat([(w[..., None] * e).sum(1), e.gather(1, last).squeeze(1)], 1)
        return self.mix(h) @ self.emb.weight.t()


def fit(model, batcher, epochs, dev):
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
    for epoch in range(epochs):
        total, n = torch.zeros(1).to(dev), 0
        for x, y in batcher:
            opt.zero_grad()
            loss = F.cross_entropy(model(x.to(dev)), y.to(dev))
            loss.backward()
            xm.optimizer_step(opt)
            total += loss.detach()
            n += 1
            torch_xla.sync()
        sched.step()
        print(f"epoch {epoch} batches {n} loss {total.item() / n:.4f}")


def main():
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = SessionModel().to(dev)
    torch_xla.sync()
    fit(model, BucketBatcher(sessions(110, 0), 1), 3, dev)


if __name__ == "__main__":
    main()
