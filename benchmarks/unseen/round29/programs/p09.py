"""Sequential recommendation: attention over the watch history, length buckets."""
import copy
from collections import defaultdict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_ITEMS = 200
BUCKETS = (8, 16, 32)
BATCH = 16
ACCUM = 2
EPOCHS = 10
AVG_FROM = 1
PAD = 0


def sessions(n, seed):
    rng = np.random.default_rng(seed)
    jump = rng.permutation(N_ITEMS - 1) + 1
    data = []
    for _ in range(n):
        length = int(np.clip(rng.lognormal(2.3, 0.6), 3, BUCKETS[-1]))
        item = int(rng.integers(1, N_ITEMS))
        seq = [item]
        for _ in range(length):
            item = int(jump[item - 1]) if rng.random() < 0.8 else int(rng.integers(1, N_ITEMS))
            seq.append(item)
        data.append(seq)
    return data


def bucketed(data, rng=None):
    """Yields (history, target) with the history padded to its bucket; ragged tails are dropped."""
    groups = defaultdict(list)
    for seq in data:
        size = next(b for b in BUCKETS if len(seq) - 1 <= b)
        row = np.full(size + 1, PAD, np.int64)
        row[-len(seq):] = seq
        groups[size].append(row)
    batches = []
    for size, rows in groups.items():
        rows = np.stack(rows)
        if rng is not None:
            rng.shuffle(rows)
        for i in range(0, len(rows) - BATCH + 1, BATCH):
            batches.append(rows[i:i + BATCH])
    if rng is not None:
        rng.shuffle(order := np.arange(len(batches)))
        batches = [batches[i] for i in order]
    for b in batches:
        yield torch.from_numpy(b[:, :-1].copy()), torch.from_numpy(b[:, -1].copy())


class Recommender(nn.Module):

    def __init__(self, dim=24):
        super().__init__()
        self.items = nn.Embedding(N_ITEMS, dim, padding_idx=PAD)
        self.att = nn.Linear(dim, 1)
        self.recency = nn.Parameter(torch.zeros(BUCKETS[-1], dim))
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 64), nn.ReLU(), nn.Linear(64, dim))

    def forward(self, hist):
        e = self.items(hist)
        keyed = e + self.recency[-hist.shape[1]:]
        w = self.att(torch.tanh(keyed)).squeeze(-1).masked_fill(hist == PAD, -1e4).softmax(-1)
        pooled = (w[..., None] * e).sum(1)
        user = self.mlp(torch.cat([pooled, e[:, -1]], -1))
        return user @ self.items.weight.t()


@torch.no_grad()
def hit_rate(model, data, device, k=10):
    model.eval()
    hits = torch.zeros((), device=device)
    n = 0
    for hist, target in bucketed(data):
        top = model(hist.to(device)).topk(k, dim=1).indices
        hits += (top == target.to(device)[:, None]).any(1).float().sum()
        n += len(target)
        xm.mark_step()
    model.train()
    return hits.item() / n


@torch.no_grad()
def update_average(avg, model, n):
    for a, p in zip(avg.parameters(), model.parameters()):
        a.add_(p - a, alpha=1.0 / (n + 1))
    xm.mark_step()


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    device = torch_xla.device()
    train, valid = sessions(400, 1), sessions(120, 1)
    model = Recommender().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    avg, n_avg = None, 0

    for epoch in range(EPOCHS):
        total = 0.0
        micro = list(bucketed(train, rng))
        micro = micro[:len(micro) // ACCUM * ACCUM]
        for i, (hist, target) in enumerate(micro):
            loss = F.cross_entropy(model(hist.to(device)), target.to(device))
            (loss / ACCUM).backward()
            if (i + 1) % ACCUM == 0:
                opt.step()
                opt.zero_grad()
            xm.mark_step()
            total += loss.item()
        if epoch >= AVG_FROM:
            if avg is None:
                avg = copy.deepcopy(model)
            else:
                update_average(avg, model, n_avg)
            n_avg += 1
        hr = hit_rate(model if avg is None else avg, valid, device)
        print(f"epoch {epoch}: loss {total / len(micro):.3f} HR@10 {hr:.3f}")


if __name__ == "__main__":
    main()
