"""Intent classification with length-bucketed batches and a held-out evaluation after each epoch."""
import collections

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, Sampler
import torch_xla
import torch_xla.core.xla_model as xm
from torch_xla.distributed.parallel_loader import MpDeviceLoader

conf = {
    "vocab": 80,
    "classes": 5,
    "buckets": (8, 16, 24),
    "batch": 16,
    "dim": 16,
    "heads": 2,
    "epochs": 5,
    "lr": 4e-3,
}


class Utterances(Dataset):

    def __init__(self, n, seed):
        g = np.random.RandomState(seed)
        self.items = []
        for _ in range(n):
            label = g.randint(conf["classes"])
            size = g.randint(3, conf["buckets"][-1] + 1)
            toks = g.randint(10, conf["vocab"], size=size)
            toks[g.randint(size)] = 1 + label
            self.items.append((toks, label))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, k):
        return self.items[k]


def bucket_of(n):
    return next(b for b in conf["buckets"] if n <= b)


class BucketSampler(Sampler):
    """Full batches of utterances that share a bucket; leftovers wait for the next epoch."""

    def __init__(self, data, batch, seed=0):
        self.batch = batch
        self.rng = np.random.RandomState(seed)
        self.by_bucket = collections.defaultdict(list)
        for k, (toks, _) in enumerate(data.items):
            self.by_bucket[bucket_of(len(toks))].append(k)

    def __iter__(self):
        batches = []
        for members in self.by_bucket.values():
            order = self.rng.permutation(members)
            full = len(order) // self.batch
            batches += [order[i * self.batch:(i + 1) * self.batch].tolist() for i in range(full)]
        self.rng.shuffle(batches)
        return iter(batches)

    def __len__(self):
        return sum(len(m) // self.batch for m in self.by_bucket.values())


def collate(rows):
    width = bucket_of(max(len(t) for t, _ in rows))
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    for r, (t, _) in enumerate(rows):
        ids[r, :len(t)] = torch.from_numpy(t)
    return ids, torch.tensor([l for _, l in rows])


class Encoder(nn.Module):

    def __init__(self, vocab, dim, heads, classes):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.cls = nn.Linear(dim, classes)

    def forward(self, ids):
        pad = ids == 0
        x = self.emb(ids)
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2)) / (d // self.heads)**0.5
        att = att.masked_fill(pad[:, None, None, :], -1e4).softmax(-1)
        x = x + (att @ v).transpose(1, 2).reshape(b, t, d)
        x = x + self.ff(x)
        x = x.masked_fill(pad[..., None], -1e4).amax(1)
        return self.cls(x)


def main():
    torch.manual_seed(2)
    dev = torch_xla.device()
    train_ds, test_ds = Utterances(240, 0), Utterances(120, 1)
    train = MpDeviceLoader(
        DataLoader(train_ds, batch_sampler=BucketSampler(train_ds, conf["batch"]), collate_fn=collate), dev)
    test = MpDeviceLoader(
        DataLoader(test_ds, batch_sampler=BucketSampler(test_ds, conf["batch"], 1), collate_fn=collate), dev)

    net = Encoder(conf["vocab"], conf["dim"], conf["heads"], conf["classes"]).to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=conf["lr"])
    for epoch in range(conf["epochs"]):
        net.train()
        seen = []
        for ids, y in train:
            opt.zero_grad()
            loss = F.cross_entropy(net(ids), y)
            loss.backward()
            xm.optimizer_step(opt)
            seen.append(loss.detach())
        net.eval()
        correct = []
        with torch.no_grad():
            for ids, y in test:
                correct.append((net(ids).argmax(-1) == y).float().mean())
        print(f"epoch {epoch}  loss {np.mean([s.item() for s in seen]):.3f}  "
              f"acc {np.mean([c.item() for c in correct]):.3f}")


if __name__ == "__main__":
    main()
