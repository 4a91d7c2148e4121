"""Keyword spotting on synthetic 1-second clips (waveform -> log spectrogram -> small CNN)."""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

SR = 1600
CLASSES = 6


class Tones(Dataset):
    """Each class is a chord; amplitude, phase and noise vary from clip to clip."""

    def __init__(self, n, seed):
        rng = np.random.RandomState(seed)
        t = np.arange(SR) / SR
        self.y = rng.randint(0, CLASSES, n)
        base = 60 + 70 * self.y
        phase = rng.rand(n, 1) * 6.28
        wav = np.sin(6.28 * base[:, None] * t + phase)
        wav += 0.5 * np.sin(6.28 * 1.5 * base[:, None] * t)
        self.x = (wav + 0.3 * rng.randn(n, SR)).astype(np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], int(self.y[i])


class Frontend(nn.Module):
    def __init__(self, win=64, hop=32):
        super().__init__()
        self.hop = hop
        n = torch.arange(win).float()
        k = torch.arange(win // 2).float()
        ang = 2 * np.pi * k[:, None] * n[None] / win
        w = torch.hann_window(win)
        self.register_buffer("re", (torch.cos(ang) * w)[:, None])
        self.register_buffer("im", (torch.sin(ang) * w)[:, None])

    def forward(self, wav):
        x = wav[:, None]
        p = F.conv1d(x, self.re, stride=self.hop) ** 2 + F.conv1d(x, self.im, stride=self.hop) ** 2
        return torch.log(p + 1e-4)


class Augment(nn.Module):
    def __init__(self, max_shift=160, freq_width=8, noise=0.02):
        super().__init__()
        self.max_shift = max_shift
        self.freq_width = freq_width
        self.noise = noise

    def waveform(self, wav):
        shift = random.randint(-self.max_shift, self.max_shift)
        wav = torch.roll(wav, shifts=shift, dims=1)
        gain = random.uniform(0.8, 1.2)
        return wav * gain + self.noise * torch.randn_like(wav)

    def spectrogram(self, spec):
        b, f, _ = spec.shape
        start = torch.rand(b, 1, device=spec.device) * (f - self.freq_width)
        width = torch.rand(b, 1, device=spec.device) * self.freq_width
        pos = torch.arange(f, device=spec.device)[None]
        hide = (pos >= start) & (pos < start + width)
        return spec.masked_fill(hide[:, :, None], 0.0)


class KWS(nn.Module):
    def __init__(self, aug):
        super().__init__()
        self.front = Frontend()
        self.aug = aug
        self.body = nn.Sequential(
            nn.Conv1d(32, 32, 3, padding=1), nn.BatchNorm1d(32), nn.ReLU(),
            nn.Conv1d(32, 32, 3, stride=2, padding=1), nn.BatchNorm1d(32), nn.ReLU())
        self.head = nn.Linear(32, CLASSES)

    def forward(self, wav):
        if self.training:
            wav = self.aug.waveform(wav)
        spec = self.front(wav)
        if self.training:
            spec = self.aug.spectrogram(spec)
        return self.head(self.body(spec).mean(-1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--batch-size", type=int, default=16)
    args = ap.parse_args()
    random.seed(3)
    torch.manual_seed(3)

    device = xm.xla_device()
    train = DataLoader(Tones(160, 0), args.batch_size, shuffle=True, drop_last=True)
    valid = DataLoader(Tones(64, 1), args.batch_size, drop_last=True)
    train = pl.MpDeviceLoader(train, device)
    valid = pl.MpDeviceLoader(valid, device)

    model = KWS(Augment()).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs * 10, eta_min=1e-4)

    for epoch in range(args.epochs):
        model.train()
        for wav, y in train:
            opt.zero_grad()
            loss = F.cross_entropy(model(wav), y, label_smoothing=0.1)
            loss.backward()
            xm.optimizer_step(opt)
            sched.step()

        model.eval()
        hits = torch.zeros((), device=device)
        with torch.no_grad():
            for wav, y in valid:
                hits += (model(wav).argmax(-1) == y).sum()
        print(f"epoch {epoch} loss {loss.item():.3f} acc {hits.item() / 64:.3f}", flush=True)


if __name__ == "__main__":
    main()
