"""Acoustic event tagging on clips of mixed duration."""
import os
import random

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

NUM_MELS = 20
NUM_TAGS = 6
BUCKETS = (32, 64, 96)


class Clips(Dataset):
    """Log-mel clips holding one to three overlapping tonal events."""

    def __init__(self, count, seed):
        rng = np.random.default_rng(seed)
        self.items = [self._synthesise(rng) for _ in range(count)]

    @staticmethod
    def _synthesise(rng):
        frames = int(rng.integers(16, BUCKETS[-1] + 1))
        mel = rng.normal(0, 0.5, (frames, NUM_MELS)).astype(np.float32)
        tags = np.zeros(NUM_TAGS, np.float32)
        for tag in rng.choice(NUM_TAGS, int(rng.integers(1, 4)), replace=False):
            start = int(rng.integers(0, frames - 8))
            stop = start + int(rng.integers(8, frames - start + 1))
            band = 2 + 3 * int(tag)
            mel[start:stop, band : band + 2] += rng.uniform(1.0, 2.0)
            tags[tag] = 1.0
        return mel, tags

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]

    def length(self, i):
        return len(self.items[i][0])


def bucket_of(length):
    return next(b for b in BUCKETS if length <= b)


class BucketBatchSampler:
    def __init__(self, dataset, batch_size, shuffle, drop_last, seed=0):
        self.batch_size, self.shuffle, self.drop_last = batch_size, shuffle, drop_last
        self.rng = random.Random(seed)
        self.pools = {b: [] for b in BUCKETS}
        for i in range(len(dataset)):
            self.pools[bucket_of(dataset.length(i))].append(i)

    def __iter__(self):
        batches = []
        for pool in self.pools.values():
            order = list(pool)
            if self.shuffle:
                self.rng.shuffle(order)
            for lo in range(0, len(order), self.batch_size):
                batch = order[lo : lo + self.batch_size]
                if len(batch) == self.batch_size or not self.drop_last:
                    batches.append(batch)
        if self.shuffle:
            self.rng.shuffle(batches)
        return iter(batches)


def collate(items):
    width = bucket_of(max(len(mel) for mel, _ in items))
    mels = torch.zeros(len(items), width, NUM_MELS)
    mask = torch.zeros(len(items), width)
    for row, (mel, _) in enumerate(items):
        mels[row, : len(mel)] = torch.from_numpy(mel)
        mask[row, : len(mel)] = 1.0
    return mels, mask, torch.from_numpy(np.stack([tags for _, tags in items]))


class Tagger(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.frontend = nn.Sequential(nn.Linear(3 * NUM_MELS, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, width))
        self.attention = nn.Linear(width, NUM_TAGS)
        self.detector = nn.Linear(width, NUM_TAGS)

    def forward(self, mels, mask):
        padded = F.pad(mels, (0, 0, 1, 1))
        context = torch.cat([padded[:, :-2], padded[:, 1:-1], padded[:, 2:]], dim=-1)
        h = F.gelu(self.frontend(context))
        weights = self.attention(h).masked_fill(mask.unsqueeze(-1) == 0, -1e4).softmax(dim=1)
        return (weights * self.detector(h)).sum(dim=1)


class Ema:
    def __init__(self, model, decay):
        self.decay, self.updates = decay, 0
        self.shadow = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def update(self, model):
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        for slow, p in zip(self.shadow, model.parameters()):
            slow.mul_(decay).add_(p, alpha=1.0 - decay)

    @torch.no_grad()
    def swap(self, model):
        for slow, p in zip(self.shadow, model.parameters()):
            kept = p.clone()
            p.copy_(slow)
            slow.copy_(kept)


@torch.no_grad()
def validate(model, loader, device):
    hits = total = 0.0
    for mels, mask, tags in loader:
        logits = model(mels.to(device), mask.to(device))
        hits += ((logits > 0).float() == tags.to(device)).float().sum().item()
        total += tags.numel()
    return hits / total


def main(epochs=5, batch_size=16):
    torch.manual_seed(5)
    device = torch_xla.device()
    train_set, val_set = Clips(240, seed=1), Clips(90, seed=2)
    train_loader = DataLoader(train_set, batch_sampler=BucketBatchSampler(train_set, batch_size, True, True), collate_fn=collate)
    val_loader = DataLoader(val_set, batch_sampler=BucketBatchSampler(val_set, batch_size, False, False), collate_fn=collate)

    model = Tagger().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * 14, eta_min=2e-4)
    ema = Ema(model, 0.95)

    for epoch in range(1, epochs + 1):
        losses = []
        for mels, mask, tags in train_loader:
            loss = F.binary_cross_entropy_with_logits(model(mels.to(device), mask.to(device)), tags.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            ema.update(model)
            losses.append(loss.detach())
            torch_xla.sync()

        ema.swap(model)
        torch_xla.sync()
        accuracy = validate(model, val_loader, device)
        ema.swap(model)
        torch_xla.sync()
        print(f"epoch {epoch}  steps {len(losses)}  loss {torch.stack(losses).mean().item():.4f}  tag accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
