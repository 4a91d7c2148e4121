"""Spoken-command recognition on log-mel features, batched by utterance length."""
import bisect
import random
from collections import defaultdict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset, Sampler

MELS, COMMANDS = 20, 8
EDGES = (32, 48, 64, 80)


class Utterances(Dataset):
    """Formant-like trajectories, one pattern per command, with speaker-dependent speed."""

    def __init__(self, size, seed):
        rng = np.random.default_rng(seed)
        self.label = rng.integers(0, COMMANDS, size=size)
        self.frames = rng.integers(20, EDGES[-1] + 1, size=size)
        self.noise_seed = rng.integers(0, 2 ** 31, size=size)

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        rng = np.random.default_rng(self.noise_seed[i])
        t = np.linspace(0, 1, self.frames[i])
        c = self.label[i]
        track = MELS * (0.5 + 0.35 * np.sin(2 * np.pi * (0.5 + 0.25 * c) * t + c))
        mel = np.exp(-0.5 * ((np.arange(MELS)[None] - track[:, None]) / 1.5) ** 2)
        mel = mel + rng.normal(0, 0.3, size=mel.shape)
        return torch.from_numpy(mel).float(), int(c)


class LengthBatchSampler(Sampler):
    def __init__(self, frames, batch_size, seed):
        self.groups = defaultdict(list)
        for i, n in enumerate(frames):
            self.groups[bisect.bisect_left(EDGES, n)].append(i)
        self.batch_size, self.seed, self.epoch = batch_size, seed, 0

    def __iter__(self):
        rng = random.Random(self.seed + self.epoch)
        batches = []
        for members in self.groups.values():
            members = members[:]
            rng.shuffle(members)
            full = len(members) - len(members) % self.batch_size
            batches += [members[k:k + self.batch_size] for k in range(0, full, self.batch_size)]
        rng.shuffle(batches)
        self.epoch += 1
        return iter(batches)

    def __len__(self):
        return sum(len(m) // self.batch_size for m in self.groups.values())


def collate(samples):
    longest = max(m.size(0) for m, _ in samples)
    width = EDGES[bisect.bisect_left(EDGES, longest)]
    mel = torch.zeros(len(samples), width, MELS)
    mask = torch.zeros(len(samples), width)
    for row, (m, _) in enumerate(samples):
        mel[row, :m.size(0)] = m
        mask[row, :m.size(0)] = 1.0
    return mel, mask, torch.tensor([c for _, c in samples])


class SeparableBlock(nn.Module):
    def __init__(self, width, kernel):
        super().__init__()
        self.depth = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.point = nn.Conv1d(width, width, 1)
        self.norm = nn.GroupNorm(1, width)

    def forward(self, x, mask):
        h = F.silu(self.norm(self.point(self.depth(x * mask))))
        return x + F.dropout(h, 0.1, self.training)


class CommandNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.inp = nn.Conv1d(MELS, width, 5, padding=2)
        self.blocks = nn.ModuleList(SeparableBlock(width, k) for k in (5, 7, 9))
        self.score = nn.Conv1d(width, 1, 1)
        self.out = nn.Linear(2 * width, COMMANDS)

    def forward(self, mel, mask):
        m = mask.unsqueeze(1)
        x = self.inp(mel.transpose(1, 2))
        for block in self.blocks:
            x = block(x, m)
        a = self.score(x).masked_fill(m == 0, -1e4).softmax(dim=-1)
        mean = (a * x).sum(dim=-1)
        std = ((a * x ** 2).sum(dim=-1) - mean ** 2).clamp(min=1e-5).sqrt()
        return self.out(torch.cat([mean, std], dim=1))


def main():
    torch.manual_seed(13)
    device = torch_xla.device()
    data = Utterances(420, seed=13)
    sampler = LengthBatchSampler(data.frames, batch_size=16, seed=5)
    loader = DataLoader(data, batch_sampler=sampler, collate_fn=collate)
    model = CommandNet().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)

    for epoch in range(3):
        hits, seen = [], 0
        for mel, mask, label in loader:
            mel, mask, label = mel.to(device), mask.to(device), label.to(device)
            logits = model(mel, mask)
            loss = F.cross_entropy(logits, label, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            hits.append((logits.argmax(dim=1) == label).sum())
            seen += label.numel()
            torch_xla.sync()
        scheduler.step()
        accuracy = sum(h.item() for h in hits) / seen
        print(f"epoch {epoch + 1}  loss {loss.item():.4f}  accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
