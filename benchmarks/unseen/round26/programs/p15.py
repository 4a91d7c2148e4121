"""Lesion segmentation toy: small U-Net, focal + soft dice."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    image_size: int = 16
    n_train: int = 80
    batch_size: int = 8
    epochs: int = 2
    lr: float = 2e-3
    gamma_start: float = 3.0
    gamma_end: float = 1.5
    focal_weight: float = 4.0
    width: int = 8


class Blobs(Dataset):
    def __init__(self, n, size, seed=0):
        rng = np.random.RandomState(seed)
        yy, xx = np.mgrid[0:size, 0:size]
        self.items = []
        for _ in range(n):
            cy, cx, r = rng.randint(3, size - 3), rng.randint(3, size - 3), rng.uniform(1.0, 3.0)
            mask = ((yy - cy) ** 2 + (xx - cx) ** 2 <= r * r).astype(np.float32)
            image = mask * rng.uniform(0.4, 1.0) + 0.4 * rng.randn(size, size)
            self.items.append((image[None].astype(np.float32), mask[None]))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(2, cout), nn.SiLU())


class SmallUNet(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.d1, self.d2 = block(1, w), block(w, 2 * w)
        self.u1 = block(3 * w, w)
        self.out = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        b = b.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
        return self.out(self.u1(torch.cat([a, b], 1)))


class Criterion(nn.Module):
    """Focal BCE plus soft dice; the focusing parameter is relaxed during the run."""

    def __init__(self, cfg, total_steps):
        super().__init__()
        self.cfg, self.total = cfg, total_steps
        self.gamma = cfg.gamma_start

    def set_step(self, step):
        f = min(step / self.total, 1.0)
        self.gamma = self.cfg.gamma_start + f * (self.cfg.gamma_end - self.cfg.gamma_start)

    def focal(self, logits, target):
        ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        pt = torch.exp(-ce)
        alpha = 0.75 * target + 0.25 * (1 - target)
        return (alpha * (1 - pt).clamp(min=1e-6) ** self.gamma * ce).mean()

    def dice(self, logits, target):
        p = torch.sigmoid(logits).flatten(1)
        t = target.flatten(1)
        return (1 - (2 * (p * t).sum(1) + 1) / (p.sum(1) + t.sum(1) + 1)).mean()

    def forward(self, logits, target):
        focal, dice = self.focal(logits, target), self.dice(logits, target)
        return self.cfg.focal_weight * focal + dice, focal, dice


def _log(step, lr, loss, focal, dice):
    print(f"step {step} lr {lr:.5f} loss {loss.item():.4f} focal {focal.item():.4f} dice {dice.item():.4f}")


def main():
    cfg = Config()
    torch.manual_seed(0)
    device = xm.xla_device()
    loader = DataLoader(Blobs(cfg.n_train, cfg.image_size), cfg.batch_size, shuffle=True, drop_last=True)
    device_loader = pl.MpDeviceLoader(loader, device)
    net = SmallUNet(cfg.width).to(device)
    total = cfg.epochs * len(loader)
    criterion = Criterion(cfg, total)
    opt = torch.optim.Adam(net.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, total, eta_min=1e-4)
    step = 0
    for epoch in range(cfg.epochs):
        net.train()
        for image, mask in device_loader:
            criterion.set_step(step)
            opt.zero_grad()
            loss, focal, dice = criterion(net(image), mask)
            loss.backward()
            xm.optimizer_step(opt)
            sched.step()
            step += 1
            if step % 8 == 0:
                xm.add_step_closure(_log, args=(step, sched.get_last_lr()[0], loss, focal, dice))


if __name__ == "__main__":
    main()
