"""Keyword spotting from log-mel patches, with time/frequency masking on device."""
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset


@dataclass
class Cfg:
    mels: int = 20
    frames: int = 32
    words: int = 6
    width: int = 16
    band: int = 4
    batch: int = 16
    epochs: int = 2
    lr: float = 0.02


class Clips(Dataset):
    def __init__(self, cfg, n=256):
        g = torch.Generator().manual_seed(3)
        self.y = torch.randint(0, cfg.words, (n,), generator=g)
        t = torch.arange(cfg.frames).float()
        m = torch.arange(cfg.mels).float()
        base = torch.sin(0.2 * (self.y.float() + 1)[:, None, None] * t[None, None] + 0.3 * m[None, :, None])
        self.x = base + 0.4 * torch.randn(n, cfg.mels, cfg.frames, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class DSBlock(nn.Module):
    """Depthwise-separable convolution with residual."""

    def __init__(self, c, k):
        super().__init__()
        self.dw = nn.Conv1d(c, c, k, padding=k // 2, groups=c, bias=False)
        self.pw = nn.Conv1d(c, c, 1, bias=False)
        self.bn = nn.BatchNorm1d(c)

    def forward(self, x):
        return x + F.relu(self.bn(self.pw(self.dw(x))))


class MatchNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.stem = nn.Conv1d(cfg.mels, cfg.width, 5, padding=2)
        self.blocks = nn.ModuleList([DSBlock(cfg.width, k) for k in (3, 5)])
        self.head = nn.Linear(cfg.width, cfg.words)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for b in self.blocks:
            x = b(x)
        return self.head(x.mean(-1))


class BandDropout:
    """Blank one block of mel channels per batch."""

    def __init__(self, cfg):
        self.mels, self.band = cfg.mels, cfg.band
        self.rng = random.Random(11)

    def __call__(self, spec):
        lo = self.rng.randrange(0, self.mels - self.band, 4)
        spec = spec.clone()
        spec[:, lo:lo + self.band] = spec.mean()
        return spec


def run(cfg):
    torch.manual_seed(1)
    dev = torch_xla.device()
    net = MatchNet(cfg).to(dev)
    augment = BandDropout(cfg)
    opt = torch.optim.SGD(net.parameters(), lr=cfg.lr, weight_decay=1e-4)
    loader = pl.MpDeviceLoader(
        DataLoader(Clips(cfg), batch_size=cfg.batch, shuffle=True, drop_last=True), dev)
    for epoch in range(cfg.epochs):
        total = torch.zeros((), device=dev)
        for x, y in loader:
            opt.zero_grad()
            loss = F.cross_entropy(net(augment(x)), y)
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 2.0)
            opt.step()
            total += loss.detach()
        xm.master_print(f"epoch {epoch} loss {total.item() / len(loader):.3f}")


if __name__ == "__main__":
    run(Cfg())
