"""Road-scene segmentation with a small encoder-decoder and OHEM cross entropy.

Synthetic stand-in for a dash-cam set: each image has a road trapezoid, a few
vehicles and an ignore region (ego car / label void), index 255.
"""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

IGNORE = 255
NUM_CLASSES = 4


class RoadScenes(Dataset):
    def __init__(self, n, size=24, seed=0):
        self.n, self.size, self.seed = n, size, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 100003 + i)
        s = self.size
        yy, xx = np.mgrid[0:s, 0:s]
        label = np.zeros((s, s), dtype=np.int64)
        horizon = rng.integers(s // 4, s // 2)
        centre = s / 2 + rng.normal(0, 2)
        label[(yy > horizon) & (np.abs(xx - centre) < (yy - horizon) * 0.8)] = 1
        for _ in range(rng.integers(1, 4)):
            y, x = rng.integers(horizon, s - 6), rng.integers(0, s - 6)
            h, w = rng.integers(3, 7, size=2)
            label[y:y + h, x:x + w] = rng.integers(2, NUM_CLASSES)
        img = np.stack([label / NUM_CLASSES, yy / s, xx / s]).astype(np.float32)
        img += rng.normal(0, 0.15, img.shape).astype(np.float32)
        hood = int(rng.integers(2, 7))
        label[s - hood:] = IGNORE
        label[:, 0] = IGNORE
        return torch.from_numpy(img), torch.from_numpy(label)


class ConvBNAct(nn.Sequential):
    def __init__(self, cin, cout, stride=1):
        super().__init__(nn.Conv2d(cin, cout, 3, stride, 1, bias=False),
                         nn.BatchNorm2d(cout), nn.ReLU6(inplace=True))


class TinySeg(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.stem = ConvBNAct(3, width)
        self.down1 = ConvBNAct(width, width * 2, 2)
        self.up1 = nn.ConvTranspose2d(width * 2, width, 2, stride=2)
        self.head = nn.Conv2d(width, NUM_CLASSES, 1)

    def forward(self, x):
        c0 = self.stem(x)
        c1 = self.down1(c0)
        d0 = F.relu(self.up1(c1) + c0)
        return self.head(d0)


class OhemCrossEntropy(nn.Module):
    """Keeps the hardest `keep` share of the labelled pixels of the batch."""

    def __init__(self, keep=0.25, min_kept=32):
        super().__init__()
        self.keep = keep
        self.min_kept = min_kept

    def forward(self, logits, target, n_labelled):
        loss = F.cross_entropy(logits, target, ignore_index=IGNORE, reduction="none")
        n_hard = max(self.min_kept, int(self.keep * n_labelled))
        hardest = loss.flatten().topk(n_hard, sorted=False).values
        return hardest.mean()


def poly_lr(step, total, power=0.9):
    return (1 - step / total) ** power


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch-size", type=int, default=4)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--images", type=int, default=32)
    ap.add_argument("--lr", type=float, default=0.05)
    args = ap.parse_args()

    torch.manual_seed(7)
    device = torch_xla.device()
    loader = DataLoader(RoadScenes(args.images), batch_size=args.batch_size,
                        shuffle=True, drop_last=True,
                        generator=torch.Generator().manual_seed(7))
    model = TinySeg().to(device).train()
    criterion = OhemCrossEntropy()
    total = args.epochs * len(loader)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9,
                          weight_decay=1e-4, nesterov=True)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: poly_lr(s, total))

    step = 0
    for epoch in range(args.epochs):
        running = torch.zeros((), device=device)
        for images, labels in loader:
            n_labelled = int((labels != IGNORE).sum())
            images, labels = images.to(device), labels.to(device)
            opt.zero_grad(set_to_none=True)
            logits = model(images)
            loss = criterion(logits, labels, n_labelled)
            loss.backward()
            xm.optimizer_step(opt)
            sched.step()
            running += loss.detach()
            torch_xla.sync()
            step += 1
        mean = running.item() / len(loader)
        print(f"epoch {epoch} step {step} ohem loss {mean:.4f} "
              f"lr {sched.get_last_lr()[0]:.4f}")
        assert math.isfinite(mean)


if __name__ == "__main__":
    main()
