import math
import os
import random

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

# Frame-level unit prediction (HuBERT style, second iteration targets).
N_MELS = 20
N_UNITS = 32
DIM = 24
BUCKETS = (64, 80, 96, 112, 128, 160)
BUCKET_BATCH = {64: 8, 80: 6, 96: 5, 112: 4, 128: 4, 160: 3}
FRAMES_PER_UPDATE = 900
MAX_UPDATES = 25
PEAK_LR = 2e-3
WARMUP = 6


class Utterances:
    """Synthetic corpus: units with durations, mels are noisy unit prototypes."""

    def __init__(self, n_utts, seed):
        rng = np.random.default_rng(seed)
        self.proto = rng.normal(size=(N_UNITS, N_MELS)).astype(np.float32)
        self.items = []
        for _ in range(n_utts):
            length = int(np.clip(rng.gamma(5.0, 20.0), 30, BUCKETS[-1]))
            units = np.repeat(rng.integers(0, N_UNITS, size=length), rng.integers(2, 6))[:length]
            mels = self.proto[units] + 0.4 * rng.normal(size=(length, N_MELS)).astype(np.float32)
            self.items.append((mels.astype(np.float32), units.astype(np.int64)))

    def lengths(self):
        return [len(u) for _, u in self.items]


def bucket_of(length):
    return next(b for b in BUCKETS if length <= b)


class BucketLoader:
    def __init__(self, data, seed):
        self.data = data
        self.rng = random.Random(seed)
        self.by_bucket = {b: [] for b in BUCKETS}
        for i, n in enumerate(data.lengths()):
            self.by_bucket[bucket_of(n)].append(i)

    def epoch(self):
        batches = []
        for b, ids in self.by_bucket.items():
            ids = ids[:]
            self.rng.shuffle(ids)
            bs = BUCKET_BATCH[b]
            batches += [(b, ids[i:i + bs]) for i in range(0, len(ids) - bs + 1, bs)]
        self.rng.shuffle(batches)
        for b, ids in batches:
            yield self.collate(b, ids)

    def collate(self, b, ids):
        mels = np.zeros((len(ids), b, N_MELS), dtype=np.float32)
        units = np.full((len(ids), b), -100, dtype=np.int64)
        frames = 0
        for r, i in enumerate(ids):
            m, u = self.data.items[i]
            mels[r, :len(u)] = m
            units[r, :len(u)] = u
            frames += len(u)
        return torch.from_numpy(mels), torch.from_numpy(units), frames


class ConvBlock(nn.Module):
    def __init__(self, dim, kernel=5):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.pw1 = nn.Linear(dim, 2 * dim)
        self.conv = nn.Conv1d(dim, dim, kernel, padding=kernel // 2)
        self.pw2 = nn.Linear(dim, dim)

    def forward(self, x):
        y, gate = self.pw1(self.norm(x)).chunk(2, dim=-1)
        y = y * torch.sigmoid(gate)
        y = self.conv(y.transpose(1, 2)).transpose(1, 2)
        return x + self.pw2(F.silu(y))


class UnitEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(N_MELS, DIM)
        self.blocks = nn.ModuleList(ConvBlock(DIM) for _ in range(2))
        self.out = nn.Linear(DIM, N_UNITS)

    def forward(self, mels):
        x = self.inp(mels)
        for blk in self.blocks:
            x = blk(x)
        return self.out(x)


def lr_at(update):
    if update < WARMUP:
        return PEAK_LR * (update + 1) / WARMUP
    return PEAK_LR * 0.5 * (1 + math.cos(math.pi * (update - WARMUP) / (MAX_UPDATES - WARMUP)))


def endless(loader):
    while True:
        yield from loader.epoch()


def main():
    random.seed(7)
    torch.manual_seed(7)
    device = torch_xla.device()
    loader = BucketLoader(Utterances(600, seed=11), seed=5)
    model = UnitEncoder().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=PEAK_LR, betas=(0.9, 0.98), weight_decay=0.01)
    xm.mark_step()

    stream = endless(loader)
    for update in range(MAX_UPDATES):
        for group in opt.param_groups:
            group["lr"] = lr_at(update)
        opt.zero_grad()
        frames = 0
        total = torch.zeros((), device=device)
        while frames < FRAMES_PER_UPDATE:
            mels, units, n = next(stream)
            mels, units = mels.to(device), units.to(device)
            logits = model(mels)
            loss = F.cross_entropy(logits.flatten(0, 1), units.flatten(), ignore_index=-100, reduction="sum")
            loss.backward()
            total += loss.detach()
            frames += n
        for p in model.parameters():
            p.grad.mul_(1.0 / frames)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        xm.mark_step()
        if (update + 1) % 5 == 0:
            print(f"update {update + 1:3d} frames {frames} nll {total.item() / frames:.4f}")


if __name__ == "__main__":
    main()
