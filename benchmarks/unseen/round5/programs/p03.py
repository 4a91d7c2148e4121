"""Keyword spotting: depthwise-separable 1-D ConvNet on log-mel frames."""
import time
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset


@dataclass
class NormOptions:
    eps: float = 1e-5
    momentum: Optional[float] = None
    affine: bool = True


@dataclass
class KWSConfig:
    mels: int = 20
    frames: int = 32
    channels: int = 16
    blocks: int = 1
    classes: int = 10
    batch: int = 16
    steps: int = 26
    lr: float = 3e-3
    weight_decay: float = 1e-4
    norm: NormOptions = None

    def __post_init__(self):
        self.norm = self.norm or NormOptions()


class SpokenWords(Dataset):
    """Synthetic words: every class is a pair of chirps at its own mel bands."""

    def __init__(self, cfg, size=800, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(cfg.classes, (size,), generator=g)
        t = torch.linspace(0, 1, cfg.frames)
        bands = torch.arange(cfg.mels).float()[:, None]
        feats = []
        for y in self.labels.tolist():
            centre = 1.5 * y + 3 * torch.sin(3 * t + y)
            feats.append(torch.exp(-(bands - centre) ** 2 / 4))
        self.feats = torch.stack(feats) + 0.1 * torch.randn(
            size, cfg.mels, cfg.frames, generator=g)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.feats[i], self.labels[i]


def norm(channels, opt: NormOptions):
    return nn.BatchNorm1d(channels, eps=opt.eps, momentum=opt.momentum, affine=opt.affine)


class DSBlock(nn.Module):
    def __init__(self, c, opt):
        super().__init__()
        self.depth = nn.Conv1d(c, c, 5, padding=2, groups=c, bias=False)
        self.point = nn.Conv1d(c, c, 1, bias=False)
        self.bn = norm(c, opt)

    def forward(self, x):
        return x + F.relu(self.bn(self.point(self.depth(x))))


class KWSNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.stem = nn.Conv1d(cfg.mels, cfg.channels, 5, stride=2, padding=2, bias=False)
        self.stem_bn = norm(cfg.channels, cfg.norm)
        self.blocks = nn.Sequential(*[DSBlock(cfg.channels, cfg.norm) for _ in range(cfg.blocks)])
        self.head = nn.Linear(cfg.channels, cfg.classes)

    def forward(self, x):
        x = F.relu(self.stem_bn(self.stem(x)))
        return self.head(self.blocks(x).mean(dim=-1))


class Meter:
    def __init__(self):
        self.t0, self.seen = time.time(), 0

    def update(self, n):
        self.seen += n

    def rate(self):
        return self.seen / max(time.time() - self.t0, 1e-6)


def main(cfg=KWSConfig()):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = KWSNet(cfg).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    loader = DataLoader(SpokenWords(cfg), batch_size=cfg.batch, shuffle=True, drop_last=True)
    meter, step = Meter(), 0
    while step < cfg.steps:
        for feats, labels in loader:
            feats, labels = feats.to(device), labels.to(device)
            optimizer.zero_grad()
            logits = model(feats)
            loss = F.cross_entropy(logits, labels, label_smoothing=0.05)
            loss.backward()
            optimizer.step()
            acc = (logits.argmax(-1) == labels).float().mean()
            torch_xla.sync()
            meter.update(cfg.batch)
            step += 1
            if step % 10 == 0:
                print(f"step {step:3d} loss {loss.item():.3f} acc {acc.item():.2f} "
                      f"{meter.rate():.1f} clips/s", flush=True)
            if step == cfg.steps:
                break


if __name__ == "__main__":
    main()
