"""Small U-Net for road-scene style segmentation, trained with online hard example mining."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset
from torch_xla.distributed.parallel_loader import MpDeviceLoader

IGNORE = 255
NUM_CLASSES = 4


class ShapesSegmentation(Dataset):
    """Boxes and discs on a noisy background; the outline of each object is not labelled."""

    def __init__(self, length, size=24, seed=0):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[0:size, 0:size]
        self.images = rng.normal(0, 0.2, (length, 3, size, size)).astype(np.float32)
        self.labels = np.zeros((length, size, size), dtype=np.int64)
        for i in range(length):
            for _ in range(rng.integers(1, 4)):
                cls = int(rng.integers(1, NUM_CLASSES))
                cy, cx, r = rng.integers(4, size - 4), rng.integers(4, size - 4), rng.integers(3, 7)
                dist = np.maximum(abs(yy - cy), abs(xx - cx)) if cls == 1 else np.hypot(yy - cy, xx - cx)
                self.labels[i][dist <= r] = cls
                self.labels[i][(dist > r) & (dist <= r + 1)] = IGNORE
                self.images[i, cls - 1][dist <= r] += 0.7

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i]), torch.from_numpy(self.labels[i])


class ConvBlock(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(
            nn.Conv2d(cin, cout, 3, padding=1, bias=False),
            nn.GroupNorm(4, cout),
            nn.ReLU(inplace=True),
        )


class TinyUNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.enc1 = ConvBlock(3, width)
        self.enc2 = ConvBlock(width, width * 2)
        self.mid = ConvBlock(width * 2, width * 2)
        self.up = nn.ConvTranspose2d(width * 2, width, 2, stride=2)
        self.dec = ConvBlock(width * 2, width)
        self.head = nn.Conv2d(width, NUM_CLASSES, 1)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = self.mid(self.enc2(self.pool(e1)))
        return self.head(self.dec(torch.cat([self.up(e2), e1], dim=1)))


class OhemCELoss(nn.Module):
    """Cross entropy over the pixels whose probability is below `thresh`, at least `n_min` of them."""

    def __init__(self, thresh, n_min, ignore_index=IGNORE):
        super().__init__()
        self.thresh = -math.log(thresh)
        self.n_min = n_min
        self.criterion = nn.CrossEntropyLoss(ignore_index=ignore_index, reduction="none")

    def forward(self, logits, labels):
        loss = self.criterion(logits, labels).view(-1)
        loss, _ = torch.sort(loss, descending=True)
        if loss[self.n_min] > self.thresh:
            loss = loss[loss > self.thresh]
        else:
            loss = loss[:self.n_min]
        return torch.mean(loss)


def confusion(logits, labels):
    pred = logits.argmax(dim=1).reshape(-1)
    lab = labels.reshape(-1)
    valid = (lab != IGNORE).float()
    flat = torch.where(lab == IGNORE, 0, lab) * NUM_CLASSES + pred
    hist = torch.zeros(NUM_CLASSES * NUM_CLASSES, device=logits.device)
    return hist.index_add(0, flat, valid).reshape(NUM_CLASSES, NUM_CLASSES)


def poly_lr(step, total, base=0.05, power=0.9):
    return base * (1 - step / total) ** power


def main():
    torch.manual_seed(11)
    device = torch_xla.device()
    gen = torch.Generator().manual_seed(5)
    train = DataLoader(ShapesSegmentation(20), batch_size=4, shuffle=True, drop_last=True, generator=gen)
    loader = MpDeviceLoader(train, device)

    model = TinyUNet().to(device)
    criterion = OhemCELoss(thresh=0.7, n_min=4 * 24 * 24 // 16)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    epochs = 3
    total = epochs * len(train)

    step = 0
    for epoch in range(epochs):
        hist = torch.zeros(NUM_CLASSES, NUM_CLASSES, device=device)
        running = torch.zeros((), device=device)
        model.train()
        for images, labels in loader:
            for group in opt.param_groups:
                group["lr"] = poly_lr(step, total)
            logits = model(images)
            loss = criterion(logits, labels)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            xm.optimizer_step(opt)
            with torch.no_grad():
                hist += confusion(logits.detach(), labels)
                running += loss.detach()
            step += 1
        h = hist.cpu().numpy()
        iou = np.diag(h) / np.maximum(h.sum(0) + h.sum(1) - np.diag(h), 1)
        print(f"epoch {epoch} loss {running.item() / len(train):.4f} mIoU {iou.mean():.3f}")


if __name__ == "__main__":
    main()
