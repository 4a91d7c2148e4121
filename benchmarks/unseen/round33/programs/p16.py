"""Framewise voice activity / event tagging on synthetic audio with length buckets.

Clips are sorted into a handful of padded lengths on the host, so that short clips
do not pay for long ones.
"""
import random
from collections import defaultdict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

RATE = 1000
HOP, WIN = 40, 80
BUCKETS = (400, 800, 1200)  # samples
BATCH = 8
EPOCHS = 4
EVENTS = 3


def synth_clip(rng):
    n = int(rng.integers(250, BUCKETS[-1]))
    t = np.arange(n) / RATE
    wave = rng.normal(0, 0.1, n)
    frames = np.zeros((1 + (n - 1) // HOP, EVENTS), dtype=np.float32)
    for e in range(EVENTS):
        if rng.random() < 0.6:
            a, b = np.sort(rng.integers(0, n, 2))
            wave[a:b] += np.sin(2 * np.pi * (60 + 90 * e) * t[a:b])
            frames[a // HOP:b // HOP + 1, e] = 1.0
    return wave.astype(np.float32), frames


def bucket_of(n):
    return next(b for b in BUCKETS if n <= b)


class BucketBatches:
    """Yields full batches of one bucket each; leftovers wait for the next epoch."""

    def __init__(self, clips, batch, seed):
        self.clips, self.batch = clips, batch
        self.rng = random.Random(seed)

    def __iter__(self):
        order = list(range(len(self.clips)))
        self.rng.shuffle(order)
        open_batches = defaultdict(list)
        for i in order:
            b = bucket_of(len(self.clips[i][0]))
            open_batches[b].append(i)
            if len(open_batches[b]) == self.batch:
                yield self.collate(open_batches.pop(b), b)

    def collate(self, ids, length):
        frames = length // HOP
        wave = np.zeros((len(ids), length), np.float32)
        target = np.zeros((len(ids), frames, EVENTS), np.float32)
        mask = np.zeros((len(ids), frames), np.float32)
        for row, i in enumerate(ids):
            w, f = self.clips[i]
            wave[row, :len(w)] = w
            k = min(len(f), frames)
            target[row, :k] = f[:k]
            mask[row, :k] = 1.0
        return [torch.from_numpy(x) for x in (wave, target, mask)]


class Tagger(nn.Module):
    def __init__(self, filters=24, hidden=24):
        super().__init__()
        self.front = nn.Conv1d(1, filters, WIN, stride=HOP, padding=(WIN - HOP) // 2)
        self.mix = nn.ModuleList(
            nn.Conv1d(filters if i == 0 else hidden, hidden, 5, padding=2) for i in range(3))
        self.head = nn.Linear(hidden, EVENTS)

    def forward(self, wave, mask):
        h = torch.log1p(self.front(wave.unsqueeze(1)).abs())
        keep = mask.unsqueeze(1)
        mean = (h * keep).sum(-1, keepdim=True) / keep.sum(-1, keepdim=True)
        h = (h - mean) * keep
        for conv in self.mix:
            h = F.gelu(conv(h)) * keep
        return self.head(h.transpose(1, 2))


def masked_bce(logits, target, mask):
    loss = F.binary_cross_entropy_with_logits(logits, target, reduction="none").mean(-1)
    return (loss * mask).sum() / mask.sum()


def main():
    torch.manual_seed(13)
    rng = np.random.default_rng(13)
    device = torch_xla.device()
    train = BucketBatches([synth_clip(rng) for _ in range(120)], BATCH, seed=1)
    held_out = BucketBatches([synth_clip(rng) for _ in range(56)], BATCH, seed=2)

    model = Tagger().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    torch_xla.sync()

    for epoch in range(EPOCHS):
        model.train()
        total, count = torch.zeros((), device=device), 0
        for wave, target, mask in train:
            with torch_xla.step():
                wave, target, mask = (x.to(device) for x in (wave, target, mask))
                opt.zero_grad()
                loss = masked_bce(model(wave, mask), target, mask)
                loss.backward()
                xm.optimizer_step(opt)
                total += loss.detach()
                count += 1

        model.eval()
        hits, seen = 0.0, 0.0
        for wave, target, mask in held_out:
            wave, target, mask = (x.to(device) for x in (wave, target, mask))
            with torch.no_grad():
                guess = (model(wave, mask) > 0).float()
                ok = ((guess == target).float().mean(-1) * mask).sum()
            torch_xla.sync()
            hits += ok.item()
            seen += mask.sum().item()
        xm.master_print(f"epoch {epoch} loss {total.item() / count:.4f} frame acc {hits / seen:.3f}")


if __name__ == "__main__":
    main()
