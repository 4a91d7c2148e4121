"""Spoken command classifier on log-mel frames of unequal length: length buckets, two micro-batches per update."""
import math
import random
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset, Sampler

MELS = 16
CLASSES = 5
BATCH = 6
ACCUM = 2
EDGES = (40, 64, 96)
MICRO_STEPS = 70
EVAL_EVERY = 14


class Commands(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.label = torch.randint(0, CLASSES, (n,), generator=g).tolist()
        self.frames = (22 + torch.rand(n, generator=g) * 74).int().tolist()
        self.seed = seed

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        n, y = self.frames[i], self.label[i]
        g = torch.Generator().manual_seed(self.seed * 10_000 + i)
        t = torch.linspace(0, 1, n)[:, None]
        centre = 3 + 2 * y + 3 * torch.sin(math.pi * t * (1 + y % 3))
        mel = torch.exp(-0.3 * (torch.arange(MELS)[None] - centre) ** 2)
        return mel + 0.3 * torch.randn(n, MELS, generator=g), y


class BucketSampler(Sampler):
    """Batches of utterances whose lengths fall between the same two edges."""

    def __init__(self, frames, batch_size, shuffle, seed=0):
        self.by_bucket = defaultdict(list)
        for i, n in enumerate(frames):
            self.by_bucket[next(e for e in EDGES if n <= e)].append(i)
        self.batch_size, self.shuffle, self.rng = batch_size, shuffle, random.Random(seed)

    def batches(self):
        out = []
        for members in self.by_bucket.values():
            members = members[:]
            if self.shuffle:
                self.rng.shuffle(members)
            full = len(members) // self.batch_size * self.batch_size
            out += [members[i:i + self.batch_size] for i in range(0, full, self.batch_size)]
        if self.shuffle:
            self.rng.shuffle(out)
        return out

    def __iter__(self):
        return iter(self.batches())

    def __len__(self):
        return sum(len(m) // self.batch_size for m in self.by_bucket.values())


def collate(items):
    longest = max(len(x) for x, _ in items)
    width = next(e for e in EDGES if longest <= e)
    feats = torch.zeros(len(items), width, MELS)
    keep = torch.zeros(len(items), width)
    for row, (x, _) in enumerate(items):
        feats[row, :len(x)] = x
        keep[row, :len(x)] = 1.0
    return feats, keep, torch.tensor([y for _, y in items])


class Net(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.inp = nn.Linear(MELS, d)
        self.conv = nn.Conv1d(d, d, 5, padding=2, groups=d)
        self.mix = nn.Linear(d, d)
        self.att = nn.Linear(d, 1)
        self.out = nn.Linear(d, CLASSES)

    def forward(self, feats, keep):
        h = F.gelu(self.inp(feats)) * keep[..., None]
        h = h + self.mix(F.gelu(self.conv(h.transpose(1, 2)).transpose(1, 2)))
        score = self.att(h).squeeze(-1).masked_fill(keep == 0, -1e4)
        return self.out(torch.einsum("bt,btd->bd", score.softmax(-1), h))


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    hits = torch.zeros((), device=device)
    seen = 0
    for feats, keep, y in loader:
        hits += (model(feats, keep).argmax(-1) == y).sum()
        seen += BATCH
    model.train()
    return hits.item() / seen


def build_loader(data, device, shuffle):
    sampler = BucketSampler(data.frames, BATCH, shuffle)
    return pl.MpDeviceLoader(DataLoader(data, batch_sampler=sampler, collate_fn=collate), device)


def main():
    torch.manual_seed(9)
    device = torch_xla.device()
    model = Net().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    train = build_loader(Commands(200, 1), device, True)
    valid = build_loader(Commands(60, 2), device, False)

    micro = 0
    while micro < MICRO_STEPS:
        for feats, keep, y in train:
            loss = F.cross_entropy(model(feats, keep), y, label_smoothing=0.05) / ACCUM
            loss.backward()
            micro += 1
            if micro % ACCUM == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                xm.optimizer_step(opt)
                opt.zero_grad()
            if micro % EVAL_EVERY == 0:
                xm.mark_step()
                print(f"micro {micro} loss {loss.item() * ACCUM:.3f} acc {evaluate(model, valid, device):.3f}")
            if micro >= MICRO_STEPS:
                break


if __name__ == "__main__":
    main()
