"""Keyword model: utterances are grouped into a few padded lengths, weights are averaged in the second half."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla as xla

BUCKETS = (32, 48, 64)
N_MELS = 12
CLASSES = 6


def bucket_of(n):
    return next(b for b in BUCKETS if n <= b)


class Utterances:
    def __init__(self, n, seed):
        rng = random.Random(seed)
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(n):
            length = rng.randint(18, BUCKETS[-1])
            label = rng.randrange(CLASSES)
            x = torch.randn(length, N_MELS, generator=g) * 0.5
            x[:, label] += 1.0
            self.items.append((x, label))

    def batches(self, batch_size, rng):
        groups = {b: [] for b in BUCKETS}
        for i, (x, _) in enumerate(self.items):
            groups[bucket_of(len(x))].append(i)
        out = []
        for b, ids in groups.items():
            ids = ids[:]
            rng.shuffle(ids)
            for s in range(0, len(ids) - batch_size + 1, batch_size):
                out.append((b, ids[s:s + batch_size]))
        rng.shuffle(out)
        for b, ids in out:
            yield self.collate(b, ids)

    def collate(self, width, ids):
        x = torch.zeros(len(ids), width, N_MELS)
        mask = torch.zeros(len(ids), width)
        y = torch.empty(len(ids), dtype=torch.long)
        for r, i in enumerate(ids):
            feat, label = self.items[i]
            x[r, :len(feat)] = feat
            mask[r, :len(feat)] = 1
            y[r] = label
        return x, mask, y


class Net(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.inp = nn.Conv1d(N_MELS, dim, 5, padding=2)
        self.mix = nn.Conv1d(dim, dim, 5, padding=2, groups=4)
        self.norm = nn.LayerNorm(dim)
        self.att = nn.Linear(dim, 1)
        self.out = nn.Linear(dim, CLASSES)

    def forward(self, x, mask):
        h = F.gelu(self.inp(x.transpose(1, 2)))
        h = self.norm((h + F.gelu(self.mix(h))).transpose(1, 2))
        w = self.att(h).squeeze(-1).masked_fill(mask == 0, -1e4).softmax(-1)
        return self.out((w.unsqueeze(-1) * h).sum(1))


def evaluate(model, data, dev, rng):
    model.eval()
    hits, total = [], 0
    with torch.no_grad():
        for x, mask, y in data.batches(8, rng):
            pred = model(x.to(dev), mask.to(dev)).argmax(-1)
            hits.append((pred == y.to(dev)).float().sum())
            total += len(y)
            xla.sync()
    model.train()
    return sum(h.item() for h in hits) / max(total, 1)


def main(epochs=10, swa_from=3):
    torch.manual_seed(5)
    rng = random.Random(5)
    dev = xla.device()
    train, dev_set = Utterances(96, 0), Utterances(72, 1)
    model, avg = Net().to(dev), Net().to(dev)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    n_avg = torch.zeros((), device=dev)
    xla.sync()
    for epoch in range(epochs):
        losses = []
        for x, mask, y in train.batches(8, rng):
            x, mask, y = x.to(dev), mask.to(dev), y.to(dev)
            loss = F.cross_entropy(model(x, mask), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.detach())
            xla.sync()
        if epoch >= swa_from:
            with torch.no_grad():
                for a, p in zip(avg.parameters(), model.parameters()):
                    a += (p - a) / (n_avg + 1)
                n_avg += 1
            xla.sync()
        acc = evaluate(model if epoch < swa_from else avg, dev_set, dev, rng)
        print(f"epoch {epoch} loss {sum(v.item() for v in losses) / len(losses):.3f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
