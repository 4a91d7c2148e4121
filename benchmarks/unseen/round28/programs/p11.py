"""Keyword spotting on short synthetic clips, small depthwise conv net."""
import argparse
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


class ToneCommands(Dataset):
    """Each 'word' is a chirp with its own start and end frequency."""

    def __init__(self, n, num_words, clip_len, sr, seed):
        self.n, self.num_words = n, num_words
        self.clip_len, self.sr = clip_len, sr
        rng = np.random.RandomState(seed)
        self.words = rng.randint(0, num_words, size=n)
        self.phase = rng.rand(n) * 2 * math.pi
        self.seed = seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        w = self.words[i]
        t = np.arange(self.clip_len) / self.sr
        f0, f1 = 80 + 30 * w, 120 + 55 * w
        sweep = f0 * t + (f1 - f0) * t * t / (2 * t[-1])
        x = np.sin(2 * math.pi * sweep + self.phase[i])
        x = x + 0.1 * np.random.RandomState(self.seed + i).randn(self.clip_len)
        return x.astype(np.float32), int(w)


class WaveAugment(nn.Module):
    def __init__(self, max_shift_ms, sr, noise_std, gain_db):
        super().__init__()
        self.max_shift = int(sr * max_shift_ms / 1000)
        self.noise_std = noise_std
        self.gain_db = gain_db

    def forward(self, wav):
        if not self.training:
            return wav
        shift = random.randint(-self.max_shift, self.max_shift)
        wav = torch.roll(wav, shifts=shift, dims=-1)
        gain = 10 ** (random.uniform(-self.gain_db, self.gain_db) / 20)
        wav = wav * gain
        return wav + self.noise_std * torch.randn_like(wav)


class DSBlock(nn.Module):
    def __init__(self, c_in, c_out, k, stride):
        super().__init__()
        self.dw = nn.Conv1d(c_in, c_in, k, stride, k // 2, groups=c_in, bias=False)
        self.pw = nn.Conv1d(c_in, c_out, 1, bias=False)
        self.bn = nn.BatchNorm1d(c_out)

    def forward(self, x):
        return F.relu(self.bn(self.pw(self.dw(x))))


class KWSNet(nn.Module):
    def __init__(self, num_words, width=8):
        super().__init__()
        self.augment = WaveAugment(max_shift_ms=100, sr=1000, noise_std=0.02, gain_db=6)
        self.stem = nn.Conv1d(1, width, 16, stride=8, padding=4)
        self.blocks = nn.Sequential(
            DSBlock(width, 2 * width, 5, 2),
        )
        self.fc = nn.Linear(2 * width, num_words)

    def forward(self, wav):
        x = self.augment(wav).unsqueeze(1)
        x = self.blocks(F.relu(self.stem(x)))
        return self.fc(x.mean(-1))


def run_epoch(model, loader, opt, device):
    model.train()
    running = torch.zeros((), device=device)
    for wav, word in loader:
        opt.zero_grad()
        loss = F.cross_entropy(model(wav), word)
        loss.backward()
        xm.optimizer_step(opt)
        running += loss.detach()
    return running


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--words", type=int, default=6)
    ap.add_argument("--lr", type=float, default=0.05)
    args = ap.parse_args()
    random.seed(3)
    torch.manual_seed(3)

    device = torch_xla.device()
    ds = ToneCommands(80, args.words, clip_len=512, sr=1000, seed=11)
    loader = DataLoader(ds, batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = KWSNet(args.words).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True)

    for epoch in range(args.epochs):
        device_loader = pl.MpDeviceLoader(loader, device)
        running = run_epoch(model, device_loader, opt, device)
        xm.master_print(f"epoch {epoch}  loss {running.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
