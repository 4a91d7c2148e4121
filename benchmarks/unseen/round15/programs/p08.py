"""Anchor-based detector for weeds in drone imagery (synthetic tiles)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

TILE, STRIDE, CLASSES = 32, 4, 3
CELLS = (TILE // STRIDE) ** 2


class WeedTiles(Dataset):
    """Tiles with 1-6 plants; targets are encoded per grid cell."""

    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, idx):
        g = torch.Generator().manual_seed(self.seed * 7919 + idx)
        image = 0.2 * torch.randn(3, TILE, TILE, generator=g)
        labels = torch.zeros(CELLS, dtype=torch.long)
        boxes = torch.zeros(CELLS, 4)
        side = TILE // STRIDE
        for _ in range(int(torch.randint(1, 7, (1,), generator=g))):
            cls = int(torch.randint(0, CLASSES, (1,), generator=g))
            cx, cy = (torch.rand(2, generator=g) * (TILE - 8) + 4).tolist()
            half = 2 + 2 * torch.rand(1, generator=g).item()
            x0, x1 = int(cx - half), int(cx + half)
            y0, y1 = int(cy - half), int(cy + half)
            image[cls, y0:y1, x0:x1] += 1.0
            cell = int(cy // STRIDE) * side + int(cx // STRIDE)
            labels[cell] = cls + 1
            boxes[cell] = torch.tensor([cx % STRIDE / STRIDE, cy % STRIDE / STRIDE,
                                        half / 4, half / 4])
        return image, labels, boxes


class Detector(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.BatchNorm2d(2 * width), nn.ReLU(),
        )
        self.cls = nn.Conv2d(2 * width, CLASSES + 1, 1)
        self.reg = nn.Conv2d(2 * width, 4, 1)

    def forward(self, x):
        f = self.stem(x)
        cls = self.cls(f).flatten(2).transpose(1, 2)
        reg = self.reg(f).flatten(2).transpose(1, 2)
        return cls, reg


class MultiboxLoss(nn.Module):
    def __init__(self, neg_ratio=3, reg_weight=2.0):
        super().__init__()
        self.neg_ratio, self.reg_weight = neg_ratio, reg_weight

    def forward(self, cls, reg, labels, boxes):
        positive = labels > 0
        ce = F.cross_entropy(cls.flatten(0, 1), labels.flatten(), reduction="none")
        ce = ce.view_as(labels)
        n_pos = int(positive.sum())
        background = ce.masked_fill(positive, 0.0).flatten()
        hard, _ = background.topk(min(self.neg_ratio * n_pos, background.numel()))
        weight = positive.float()
        conf = (ce * weight).sum() + hard.sum()
        loc = (F.smooth_l1_loss(reg, boxes, reduction="none").sum(-1) * weight).sum()
        return (conf + self.reg_weight * loc) / max(n_pos, 1)


class WarmSchedule:
    """Moves learning rate and normalisation statistics together over the run."""

    def __init__(self, optimizer, model, total, peak_lr, bn_start=0.5, bn_floor=0.01,
                 bn_decay=0.7, bn_every=3):
        self.optimizer, self.total, self.peak_lr = optimizer, total, peak_lr
        self.norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
        self.bn = (bn_start, bn_floor, bn_decay, bn_every)
        self.t = 0
        self._apply()

    def _apply(self):
        frac = min(1.0, self.t / self.total)
        lr = self.peak_lr * min(1.0, 5 * frac + 0.2) * (1 - 0.9 * frac)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        start, floor, decay, every = self.bn
        for norm in self.norms:
            norm.momentum = max(start * decay ** (self.t // every), floor)

    def step(self):
        self.t += 1
        self._apply()


@torch.no_grad()
def cell_accuracy(model, loader):
    model.eval()
    right = total = 0
    for image, labels, _ in loader:
        cls, _ = model(image)
        right = right + ((cls.argmax(-1) == labels) & (labels > 0)).sum()
        total = total + (labels > 0).sum()
    model.train()
    return right, total


def main():
    torch.manual_seed(17)
    device = torch_xla.device()
    train = pl.MpDeviceLoader(
        DataLoader(WeedTiles(88, 1), batch_size=8, shuffle=True, drop_last=True), device)
    valid = pl.MpDeviceLoader(DataLoader(WeedTiles(32, 2), batch_size=8), device)

    epochs = 3
    model = Detector().to(device)
    criterion = MultiboxLoss()
    opt = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9, weight_decay=1e-4)
    schedule = WarmSchedule(opt, model, epochs * len(train), peak_lr=0.05)

    for epoch in range(epochs):
        last = None
        for image, labels, boxes in train:
            loss = criterion(*model(image), labels, boxes)
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt)
            schedule.step()
            last = loss.detach()
        right, total = cell_accuracy(model, valid)
        xm.master_print(f"epoch {epoch}: loss {last.item():.3f}  "
                        f"recall {right.item() / max(total.item(), 1):.3f}")


if __name__ == "__main__":
    main()
