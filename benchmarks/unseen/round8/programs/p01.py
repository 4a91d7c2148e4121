"""Image classifier trained with progressive resizing (16 -> 24 -> 32 px)."""
import logging
import math
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("resize")


@dataclass
class Stage:
    size: int
    steps: int


@dataclass
class Config:
    seed: int = 11
    classes: int = 6
    batch_size: int = 8
    lr: float = 3e-3
    weight_decay: float = 1e-4
    width: int = 12
    stages: list = field(default_factory=lambda: [Stage(16, 10), Stage(24, 10), Stage(32, 10)])


class Blobs(Dataset):
    """Images with a class dependent frequency pattern."""

    def __init__(self, n, size, classes, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, classes, (n,), generator=g)
        grid = torch.linspace(0, 1, size)
        wave = torch.sin(grid[None, :] * (self.y[:, None].float() + 1) * math.pi)
        self.x = wave[:, None, None, :] * wave[:, None, :, None]
        self.x = self.x.repeat(1, 3, 1, 1) + 0.1 * torch.randn(n, 3, size, size, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class ResBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.c1 = nn.Conv2d(ch, ch, 3, padding=1, bias=False)
        self.b1 = nn.BatchNorm2d(ch)
        self.c2 = nn.Conv2d(ch, ch, 3, padding=1, bias=False)
        self.b2 = nn.BatchNorm2d(ch)

    def forward(self, x):
        h = F.relu(self.b1(self.c1(x)))
        return F.relu(x + self.b2(self.c2(h)))


class Net(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.stem = nn.Conv2d(3, cfg.width, 3, stride=2, padding=1)
        self.block = ResBlock(cfg.width)
        self.head = nn.Linear(cfg.width, cfg.classes)

    def forward(self, x):
        h = self.block(self.stem(x))
        return self.head(h.mean((2, 3)))


def make_loader(cfg, stage, seed):
    ds = Blobs(cfg.batch_size * stage.steps, stage.size, cfg.classes, seed)
    return DataLoader(ds, batch_size=cfg.batch_size, shuffle=True, drop_last=True)


def train(cfg):
    torch.manual_seed(cfg.seed)
    device = xm.xla_device()
    model = Net(cfg).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    total = sum(s.steps for s in cfg.stages)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: 0.55 + 0.44 * math.cos(math.pi * s / (total + 1)))
    step = 0
    for index, stage in enumerate(cfg.stages):
        loader = make_loader(cfg, stage, cfg.seed + index)
        stage_losses = []
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            opt.zero_grad()
            loss = F.cross_entropy(model(images), labels, label_smoothing=0.05)
            loss.backward()
            opt.step()
            sched.step()
            torch_xla.sync()
            stage_losses.append(loss.detach())
            step += 1
        values = [t.item() for t in stage_losses]
        log.info("stage %d size %d step %d loss %.4f -> %.4f",
                 index, stage.size, step, values[0], values[-1])
    return model


if __name__ == "__main__":
    train(Config())
