"""Keyword spotting on log-mel features: conv subsampling + small transformer, torch_xla."""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset


class FakeSpeechCommands(Dataset):
    def __init__(self, n=96, n_mels=40, frames=98, classes=12, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.feats = torch.randn(n, n_mels, frames, generator=g)
        self.labels = torch.randint(0, classes, (n,), generator=g)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.feats[i], self.labels[i]


class SpecAugment(nn.Module):
    """Park et al. 2019, without time warping."""

    def __init__(self, freq_width=8, time_width=20, n_freq=1, n_time=2):
        super().__init__()
        self.freq_width = freq_width
        self.time_width = time_width
        self.n_freq = n_freq
        self.n_time = n_time

    def forward(self, spec):
        if not self.training:
            return spec
        spec = spec.clone()
        _, n_mels, frames = spec.shape
        for _ in range(self.n_freq):
            width = random.randint(1, self.freq_width)
            start = random.randint(0, n_mels - width)
            spec[:, start:start + width, :] = 0.0
        for _ in range(self.n_time):
            width = random.randint(1, self.time_width)
            start = random.randint(0, frames - width)
            spec[:, :, start:start + width] = 0.0
        return spec


class EncoderBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 2 * dim)
        self.fc2 = nn.Linear(2 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-2, -1)) * (d // self.heads) ** -0.5
        a = a.softmax(dim=-1) @ v
        x = x + self.out(a.transpose(1, 2).reshape(b, t, d))
        return x + self.fc2(F.silu(self.fc1(self.norm2(x))))


class KWSModel(nn.Module):
    def __init__(self, n_mels=40, dim=24, heads=2, depth=1, classes=12):
        super().__init__()
        self.augment = SpecAugment()
        self.conv1 = nn.Conv1d(n_mels, dim, 5, stride=2, padding=2)
        self.conv2 = nn.Conv1d(dim, dim, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList([EncoderBlock(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, feats):
        x = self.augment(feats)
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x)).transpose(1, 2)
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x).mean(dim=1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=6)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=3e-4)
    args = ap.parse_args()
    random.seed(1234)
    np.random.seed(1234)
    torch.manual_seed(1234)

    device = torch_xla.device()
    model = KWSModel().to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=100)
    loader = DataLoader(FakeSpeechCommands(), batch_size=args.batch_size, shuffle=True, drop_last=True)
    torch_xla.sync()

    for step, (feats, labels) in zip(range(args.steps), loader):
        feats, labels = feats.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(feats), labels, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        scheduler.step()
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
