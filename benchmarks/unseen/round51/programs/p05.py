"""Frame-level voice activity / phone-class tagging with a small TDNN.

Utterances have very different lengths, so batches are drawn from length buckets.
"""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset, Sampler

N_MELS = 16
N_CLASSES = 5
BOUNDS = (40, 72, 112)
BATCH = 8
EPOCHS = 4


class Utterances(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        proto = np.random.default_rng(99).normal(0, 1, (N_CLASSES, N_MELS))
        self.items = []
        for _ in range(n):
            length = int(np.clip(rng.lognormal(4.0, 0.45), 16, BOUNDS[-1]))
            labels = np.repeat(rng.integers(0, N_CLASSES, length // 6 + 1), 6)[:length]
            feats = proto[labels] + rng.normal(0, 0.8, (length, N_MELS))
            self.items.append((torch.tensor(feats, dtype=torch.float32),
                               torch.tensor(labels, dtype=torch.long)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def bucket_of(length):
    for b, bound in enumerate(BOUNDS):
        if length <= bound:
            return b
    raise ValueError(length)


class BucketSampler(Sampler):
    def __init__(self, dataset, batch_size, seed, shuffle=True):
        self.batch_size, self.shuffle = batch_size, shuffle
        self.rng = random.Random(seed)
        self.buckets = [[] for _ in BOUNDS]
        for i, (feats, _) in enumerate(dataset.items):
            self.buckets[bucket_of(len(feats))].append(i)

    def __iter__(self):
        batches = []
        for bucket in self.buckets:
            ids = list(bucket)
            if self.shuffle:
                self.rng.shuffle(ids)
            for s in range(0, len(ids) - self.batch_size + 1, self.batch_size):
                batches.append(ids[s:s + self.batch_size])
        if self.shuffle:
            self.rng.shuffle(batches)
        return iter(batches)

    def __len__(self):
        return sum(len(b) // self.batch_size for b in self.buckets)


def collate(items):
    longest = max(len(f) for f, _ in items)
    width = BOUNDS[bucket_of(longest)]
    feats = torch.zeros(len(items), width, N_MELS)
    labels = torch.full((len(items), width), -100)
    for i, (f, y) in enumerate(items):
        feats[i, :len(f)] = f
        labels[i, :len(y)] = y
    return feats, labels


class TDNN(nn.Module):
    def __init__(self, width=32, dilations=(1, 2, 4)):
        super().__init__()
        self.inp = nn.Conv1d(N_MELS, width, 1)
        self.layers = nn.ModuleList(
            [nn.Conv1d(width, width, 3, padding=d, dilation=d) for d in dilations])
        self.norms = nn.ModuleList([nn.GroupNorm(4, width) for _ in dilations])
        self.head = nn.Conv1d(width, N_CLASSES, 1)

    def forward(self, feats, valid):
        keep = valid.unsqueeze(1).to(feats.dtype)
        x = self.inp(feats.transpose(1, 2)) * keep
        for conv, norm in zip(self.layers, self.norms):
            x = (x + F.relu(norm(conv(x)))) * keep
        return self.head(x)


def evaluate(model, loader):
    model.eval()
    hits, total = [], []
    with torch.no_grad():
        for feats, labels in loader:
            valid = labels != -100
            pred = model(feats, valid).argmax(1)
            hits.append(((pred == labels) & valid).sum())
            total.append(valid.sum())
    torch_xla.sync()
    model.train()
    return sum(h.item() for h in hits) / max(1, sum(t.item() for t in total))


def main():
    random.seed(0)
    torch.manual_seed(0)
    device = xm.xla_device()
    train, dev = Utterances(150, seed=1), Utterances(48, seed=2)
    train_loader = pl.MpDeviceLoader(
        DataLoader(train, batch_sampler=BucketSampler(train, BATCH, seed=3), collate_fn=collate),
        device)
    dev_loader = pl.MpDeviceLoader(
        DataLoader(dev, batch_sampler=BucketSampler(dev, BATCH, seed=4, shuffle=False),
                   collate_fn=collate), device)

    model = TDNN().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    total_steps = EPOCHS * len(train_loader)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=total_steps)

    for epoch in range(EPOCHS):
        epoch_loss = torch.zeros((), device=device)
        for feats, labels in train_loader:
            opt.zero_grad()
            logits = model(feats, labels != -100)
            loss = F.cross_entropy(logits, labels, ignore_index=-100)
            loss.backward()
            xm.optimizer_step(opt)
            sched.step()
            epoch_loss += loss.detach()
        acc = evaluate(model, dev_loader)
        print(f"epoch {epoch} loss {epoch_loss.item() / len(train_loader):.4f} frame-acc {acc:.3f}")


if __name__ == "__main__":
    main()
