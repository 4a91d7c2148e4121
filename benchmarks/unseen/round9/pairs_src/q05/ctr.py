"""Click-through model; the numeric columns come from CSV shards."""
import csv
import io
import random

import numpy as np
import torch
import torch.nn as nn
import torch_xla

FIELDS = {"site": 40, "device": 12, "campaign": 60, "hour": 24}
NUMERIC = ["impressions", "clicks_7d", "age_days", "price_cents"]


def write_shard(rows, rng, missing):
    buf = io.StringIO()
    w = csv.writer(buf)
    for _ in range(rows):
        cats = [rng.randrange(n) for n in FIELDS.values()]
        nums = [rng.randrange(5000), rng.randrange(80), rng.randrange(900), rng.randrange(30000)]
        if rng.random() < missing:
            nums[rng.randrange(4)] = ""
        w.writerow(cats + nums + [int(rng.random() < 0.2)])
    return buf.getvalue()


def read_number(cell):
    if cell == "":
        return float("nan")
    return int(cell)


def read_shard(text):
    cats, nums, labels = [], [], []
    for row in csv.reader(io.StringIO(text)):
        cats.append([int(c) for c in row[:4]])
        nums.append([read_number(c) for c in row[4:8]])
        labels.append(float(row[8]))
    nums = np.array(nums)
    if np.isnan(nums).any():
        nums = np.where(np.isnan(nums), 0, nums)
    return np.array(cats), nums, np.array(labels, dtype=np.float32)


class DeepCross(nn.Module):
    def __init__(self, emb=8, hidden=32, crosses=2):
        super().__init__()
        self.embs = nn.ModuleDict({k: nn.Embedding(n, emb) for k, n in FIELDS.items()})
        d = emb * len(FIELDS) + len(NUMERIC)
        self.norm = nn.LayerNorm(len(NUMERIC))
        self.cross = nn.ModuleList([nn.Linear(d, d) for _ in range(crosses)])
        self.deep = nn.Sequential(nn.Linear(d, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.out = nn.Linear(d + hidden, 1)

    def forward(self, cats, nums):
        parts = [e(cats[:, i]) for i, e in enumerate(self.embs.values())]
        parts.append(self.norm(torch.log1p(nums).float()))
        x0 = torch.cat(parts, dim=1)
        x = x0
        for layer in self.cross:
            x = x0 * layer(x) + x
        return self.out(torch.cat([x, self.deep(x0)], dim=1)).squeeze(1)


def batches(shards, size):
    for text in shards:
        cats, nums, y = read_shard(text)
        for s in range(0, len(y), size):
            yield (torch.from_numpy(cats[s:s + size]), torch.from_numpy(nums[s:s + size]),
                   torch.from_numpy(y[s:s + size]))


def main():
    torch.manual_seed(0)
    rng = random.Random(2)
    shards = [write_shard(128, rng, missing) for missing in (0.0, 0.0, 0.03, 0.0)]
    device = torch_xla.device()
    model = DeepCross().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.02)
    bce = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0, device=device))
    for step, (cats, nums, y) in enumerate(batches(shards, 32)):
        cats, nums, y = cats.to(device), nums.to(device), y.to(device)
        loss = bce(model(cats, nums), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 4 == 0:
            print(f"[{step:3d}] logloss {loss.item():.4f}")


if __name__ == "__main__":
    main()
