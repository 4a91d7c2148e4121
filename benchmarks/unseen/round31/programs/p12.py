"""Binary-plus-background segmentation of synthetic cell images with hard pixel mining."""
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

IGNORE = 255


class Cells(Dataset):
    """Ellipses of two kinds on noise; a thin rim of each cell is left unlabelled."""

    def __init__(self, count, size=24, seed=0):
        self.count, self.size, self.seed = count, size, seed
        self.yy, self.xx = np.mgrid[0:size, 0:size].astype(np.float32)

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 100003 + i)
        image = rng.normal(0, 0.3, (self.size, self.size)).astype(np.float32)
        label = np.zeros((self.size, self.size), dtype=np.int64)
        for _ in range(rng.integers(1, 5)):
            kind = int(rng.integers(1, 3))
            cy, cx = rng.uniform(4, self.size - 4, 2)
            ry, rx = rng.uniform(3, 8, 2)
            dist = ((self.yy - cy) / ry) ** 2 + ((self.xx - cx) / rx) ** 2
            image += np.where(dist < 1, 0.6 * kind, 0.0).astype(np.float32)
            label[dist < 1] = kind
            label[(dist >= 0.85) & (dist < 1.1)] = IGNORE
        return torch.from_numpy(image)[None], torch.from_numpy(label)


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(2, cout), nn.SiLU())


class SmallUNet(nn.Module):
    def __init__(self, classes=3, width=4):
        super().__init__()
        self.enc1 = block(1, width)
        self.mid = block(width, width * 2)
        self.dec1 = block(width * 3, width)
        self.head = nn.Conv2d(width, classes, 1)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.ConvTranspose2d(width * 2, width * 2, 2, stride=2)

    def forward(self, x):
        a = self.enc1(x)
        b = self.mid(self.pool(a))
        return self.head(self.dec1(torch.cat([self.up(b), a], dim=1)))


class OhemCELoss(nn.Module):
    """Keep the pixels above a loss threshold, and at least a sixteenth of all."""

    def __init__(self, prob=0.7, classes=3):
        super().__init__()
        self.thresh = -float(np.log(prob))
        self.ce = nn.CrossEntropyLoss(ignore_index=IGNORE, reduction="none")

    def forward(self, logits, labels):
        n_min = labels.numel() // 16
        loss, _ = self.ce(logits, labels).view(-1).sort(descending=True)
        if loss[n_min] > self.thresh:
            n_keep = int((loss > self.thresh).sum())
        else:
            n_keep = n_min
        return loss[:n_keep].mean()


class Meter:
    """Smoothed value over the last few steps."""

    def __init__(self, window=64):
        self.values = deque(maxlen=window)

    def add(self, value):
        self.values.append(value.detach())

    def smoothed(self):
        return torch.stack(tuple(self.values)).median()


def pixel_accuracy(logits, labels):
    valid = labels != IGNORE
    hit = (logits.argmax(1) == labels) & valid
    return hit.sum().float() / valid.sum().clamp(min=1).float()


def main():
    torch.manual_seed(11)
    device = torch_xla.device()
    data = Cells(64, seed=11)
    loader = pl.MpDeviceLoader(
        DataLoader(data, batch_size=4, shuffle=True, drop_last=True, generator=torch.Generator().manual_seed(11)),
        device,
    )
    net = SmallUNet().to(device)
    criterion = OhemCELoss()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=len(loader))
    loss_meter = Meter()
    acc_sum = torch.zeros((), device=device)

    net.train()
    for step, (image, label) in enumerate(loader):
        logits = net(image)
        loss = criterion(logits, label)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt)
        sched.step()
        loss_meter.add(loss)
        with torch.no_grad():
            acc_sum += pixel_accuracy(logits, label)
        if step % 3 == 2:
            shown = loss_meter.smoothed()
            xm.add_step_closure(
                lambda s, l, a: print(f"step {s:3d} loss {l.item():.3f} acc {a.item() / (s + 1):.3f}"),
                args=(step, shown, acc_sum),
            )
    torch_xla.sync()
    print("done, mean accuracy", round(acc_sum.item() / len(loader), 3))


if __name__ == "__main__":
    main()
