"""Frame-level phone recogniser on synthetic filterbanks, with a phone error rate on a dev batch."""
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SIL = 0
N_PHONES = 12
N_MELS = 20
MAX_FRAMES = 64
BATCH = 8


class Corpus:
    """Utterances of random phones, each held for a few frames."""

    def __init__(self, size, seed):
        rng = np.random.RandomState(seed)
        proto = np.random.RandomState(77).randn(N_PHONES, N_MELS).astype(np.float32)
        self.items = []
        for _ in range(size):
            frames, align, phones = [], [], []
            target = rng.randint(30, MAX_FRAMES)
            while len(align) < target:
                p = rng.randint(0, N_PHONES)
                n = min(rng.randint(2, 6), target - len(align))
                align += [p] * n
                if p != SIL and (not phones or phones[-1] != p):
                    phones.append(p)
            feats = proto[align] + 1.5 * rng.randn(len(align), N_MELS).astype(np.float32)
            self.items.append((feats, align, phones))

    def collate(self, ids):
        feats = torch.zeros(len(ids), MAX_FRAMES, N_MELS)
        labels = torch.full((len(ids), MAX_FRAMES), -100, dtype=torch.long)
        mask = torch.zeros(len(ids), MAX_FRAMES, dtype=torch.bool)
        refs = []
        for row, i in enumerate(ids):
            f, a, p = self.items[i]
            feats[row, :len(a)] = torch.from_numpy(f)
            labels[row, :len(a)] = torch.tensor(a)
            mask[row, :len(a)] = True
            refs.append(p)
        return feats, labels, mask, refs


def spec_augment(feats, rng, max_f=5, max_t=8):
    for row in feats:
        f0, t0 = rng.randrange(N_MELS - max_f), rng.randrange(MAX_FRAMES - max_t)
        row[:, f0:f0 + rng.randint(0, max_f)] = 0.0
        row[t0:t0 + rng.randint(0, max_t)] = 0.0
    return feats


class AcousticModel(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.inp = nn.Linear(N_MELS, dim)
        self.convs = nn.ModuleList([nn.Conv1d(dim, dim, 5, padding=2) for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(2)])
        self.out = nn.Linear(dim, N_PHONES)

    def forward(self, x, mask):
        h = self.inp(x) * mask.unsqueeze(-1)
        for conv, norm in zip(self.convs, self.norms):
            r = conv(norm(h).transpose(1, 2)).transpose(1, 2)
            h = (h + F.gelu(r)) * mask.unsqueeze(-1)
        return self.out(h)


def edit_distance(a, b):
    prev = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        cur = [i]
        for j, y in enumerate(b, 1):
            cur.append(min(prev[j] + 1, cur[-1] + 1, prev[j - 1] + (x != y)))
        prev = cur
    return prev[-1]


def greedy_decode(logits, mask):
    hyps = []
    best = logits.argmax(-1).masked_fill(~mask, SIL)
    for path in best:
        path = torch.unique_consecutive(path)
        path = path[path != SIL]
        hyps.append(path.tolist())
    return hyps


@torch.no_grad()
def phone_error_rate(model, feats, mask, refs):
    model.eval()
    hyps = greedy_decode(model(feats, mask), mask)
    model.train()
    errors = sum(edit_distance(h, r) for h, r in zip(hyps, refs))
    return errors / sum(len(r) for r in refs)


def main():
    random.seed(3)
    torch.manual_seed(3)
    device = torch_xla.device()
    train, dev = Corpus(96, 1), Corpus(6 * BATCH, 2)
    model = AcousticModel().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3)
    steps = 40
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / 8) * 0.5 * (1 + math.cos(math.pi * s / steps)))
    running = torch.zeros((), device=device)
    rng = random.Random(9)

    for step in range(steps):
        feats, labels, mask, _ = train.collate(rng.sample(range(96), BATCH))
        feats = spec_augment(feats, rng).to(device)
        labels, mask = labels.to(device), mask.to(device)
        logits = model(feats, mask)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, label_smoothing=0.05)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        opt.step()
        sched.step()
        running.mul_(0.9).add_(loss.detach(), alpha=0.1)
        torch_xla.sync()
        if (step + 1) % 4 == 0:
            dev_feats, _, dev_mask, dev_refs = dev.collate(rng.sample(range(6 * BATCH), BATCH))
            per = phone_error_rate(model, dev_feats.to(device), dev_mask.to(device), dev_refs)
            xm.master_print(f"step {step + 1} loss {running.item():.3f} PER {per:.3f}")
            torch_xla.sync()


if __name__ == "__main__":
    main()
