"""Keyword spotting on synthetic chirps, small depthwise conv net."""
from dataclasses import dataclass
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla as xla


@dataclass
class HParams:
    sr: int = 800
    n_fft: int = 64
    hop: int = 32
    classes: int = 5
    batch: int = 12
    steps: int = 32
    max_shift: int = 80
    log_every: int = 8
    lr: float = 4e-3


class ChirpSource:
    """Each keyword is a chirp with its own start and end frequency."""

    def __init__(self, hp, seed):
        self.hp = hp
        self.g = torch.Generator().manual_seed(seed)
        self.f0 = torch.linspace(20, 200, hp.classes)
        self.f1 = torch.linspace(220, 60, hp.classes)

    def next(self):
        hp = self.hp
        y = torch.randint(0, hp.classes, (hp.batch,), generator=self.g)
        t = torch.arange(hp.sr) / hp.sr
        f = self.f0[y, None] + (self.f1 - self.f0)[y, None] * t
        wav = torch.sin(2 * torch.pi * torch.cumsum(f, 1) / hp.sr)
        wav = wav * torch.exp(-((t - 0.5) / 0.2) ** 2)
        return wav + 0.3 * torch.randn(wav.shape, generator=self.g), y


class LogSpec(nn.Module):
    def __init__(self, n_fft, hop):
        super().__init__()
        k = torch.arange(n_fft // 2)[:, None] * torch.arange(n_fft)[None] * (2 * torch.pi / n_fft)
        win = torch.hann_window(n_fft)
        self.register_buffer("basis", torch.cat([torch.cos(k) * win, torch.sin(k) * win])[:, None])
        self.hop = hop

    def forward(self, wav):
        re, im = F.conv1d(wav[:, None], self.basis, stride=self.hop).chunk(2, dim=1)
        return torch.log(re ** 2 + im ** 2 + 1e-4)


class KWSNet(nn.Module):
    def __init__(self, hp, ch=24):
        super().__init__()
        self.front = LogSpec(hp.n_fft, hp.hop)
        self.inp = nn.Conv1d(hp.n_fft // 2, ch, 1)
        self.dw = nn.ModuleList(nn.Conv1d(ch, ch, 5, padding=2, groups=ch) for _ in range(2))
        self.pw = nn.ModuleList(nn.Conv1d(ch, ch, 1) for _ in range(2))
        self.out = nn.Linear(ch, hp.classes)

    def forward(self, wav):
        x = self.inp(self.front(wav))
        for dw, pw in zip(self.dw, self.pw):
            x = x + F.relu(pw(dw(x)))
        return self.out(x.mean(-1))


def time_shift(wav, max_shift):
    shift = random.randint(-max_shift, max_shift)
    return torch.roll(wav, shift, dims=-1)


class Trainer:
    def __init__(self, hp):
        self.hp = hp
        self.device = xla.device()
        self.model = KWSNet(hp).to(self.device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=hp.lr)
        self.source = ChirpSource(hp, seed=1)
        self.history = {"loss": [], "acc": []}

    def train_step(self):
        wav, y = self.source.next()
        wav, y = wav.to(self.device), y.to(self.device)
        wav = time_shift(wav, self.hp.max_shift)
        logits = self.model(wav)
        loss = F.cross_entropy(logits, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.history["loss"].append(loss.detach())
        self.history["acc"].append((logits.argmax(-1) == y).float().mean())
        xla.sync()

    def report(self, step):
        loss = torch.stack(self.history["loss"])
        acc = torch.stack(self.history["acc"])
        best = acc.max()
        print(f"[{step}] loss {loss.mean().item():.4f} acc {acc.mean().item():.3f} best {best.item():.3f}")

    def fit(self):
        for step in range(1, self.hp.steps + 1):
            self.train_step()
            if step % self.hp.log_every == 0:
                self.report(step)


if __name__ == "__main__":
    random.seed(4)
    torch.manual_seed(4)
    Trainer(HParams()).fit()
