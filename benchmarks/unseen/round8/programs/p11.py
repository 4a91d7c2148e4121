"""Lesion segmentation with a small U-Net and a focal loss that is sharpened while training."""
import logging
import time
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("lesion")


@dataclass
class Config:
    seed: int = 8
    size: int = 16
    width: int = 6
    batch_size: int = 4
    epochs: int = 5
    batches: int = 6
    lr: float = 6e-2
    gamma_start: float = 0.5
    gamma_end: float = 2.1
    positive_weight: float = 0.7
    log_every: int = 9


class Lesions(Dataset):
    def __init__(self, n, size, seed):
        g = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        centre = torch.randint(3, size - 3, (n, 2), generator=g)
        radius = torch.randint(2, 5, (n,), generator=g)
        dist = (yy[None] - centre[:, 0, None, None]) ** 2 + (xx[None] - centre[:, 1, None, None]) ** 2
        self.mask = (dist < radius[:, None, None] ** 2).float()
        self.image = self.mask * 0.8 + 0.4 * torch.randn(n, size, size, generator=g)

    def __len__(self):
        return len(self.mask)

    def __getitem__(self, i):
        return self.image[i, None], self.mask[i, None]


class UNet(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.down = nn.Conv2d(1, w, 3, padding=1)
        self.mid = nn.Conv2d(w, 2 * w, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(2 * w, w, 4, 2, 1)
        self.out = nn.Conv2d(2 * w, 1, 1)

    def forward(self, x):
        a = F.relu(self.down(x))
        b = F.relu(self.up(F.relu(self.mid(a))))
        return self.out(torch.cat([a, b], 1))


class FocalLoss(nn.Module):
    def __init__(self, alpha, gamma):
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, logits, target):
        ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        pt = torch.exp(-ce)
        weight = self.alpha * target + (1 - self.alpha) * (1 - target)
        return (weight * (1 - pt) ** self.gamma * ce).mean()


class FocusSchedule:
    """Moves the focal exponent from easy to hard, once an epoch."""

    def __init__(self, loss, start, end, epochs):
        self.loss, self.start, self.end, self.epochs = loss, start, end, epochs

    def on_epoch(self, epoch):
        self.loss.gamma = self.start + (self.end - self.start) * epoch / (self.epochs - 1)


def dice(logits, target):
    hard = (logits > 0).float()
    return 2 * (hard * target).sum() / (hard.sum() + target.sum() + 1e-6)


class Progress:
    def __init__(self, every):
        self.every, self.count, self.t0 = every, 0, time.time()

    def update(self, loss, score):
        self.count += 1
        if self.count % self.every == 0:
            log.info(f"step {self.count} loss {loss:.4f} dice {score:.3f} {time.time() - self.t0:.1f}s")


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = xm.xla_device()
    data = Lesions(cfg.batch_size * cfg.batches, cfg.size, cfg.seed)
    loader = DataLoader(data, batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    model = UNet(cfg.width).to(device)
    criterion = FocalLoss(cfg.positive_weight, cfg.gamma_start)
    focus = FocusSchedule(criterion, cfg.gamma_start, cfg.gamma_end, cfg.epochs)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr, weight_decay=2e-3)
    progress = Progress(cfg.log_every)
    for epoch in range(cfg.epochs):
        focus.on_epoch(epoch)
        for image, mask in loader:
            image, mask = image.to(device), mask.to(device)
            logits = model(image)
            loss = criterion(logits, mask)
            opt.zero_grad()
            loss.backward()
            progress.update(loss.detach(), dice(logits.detach(), mask))
            opt.step()
            torch_xla.sync()
        log.info("epoch %d gamma %.2f loss %.4f", epoch, criterion.gamma, loss.item())


if __name__ == "__main__":
    main()
