# One-stage detector head trained with hard negative mining (SSD style).
import itertools
from typing import NamedTuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

IMAGE, CELLS, NUM_CLASSES = 32, 8, 4      # class 0 is background
SCALES = (6.0, 10.0)


def build_anchors():
    step = IMAGE / CELLS
    rows = [((x + 0.5) * step, (y + 0.5) * step, s, s)
            for y, x in itertools.product(range(CELLS), repeat=2) for s in SCALES]
    return np.array(rows, dtype=np.float32)


def corners(b):
    return np.concatenate([b[:, :2] - b[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2], axis=1)


def iou_matrix(a, b):
    a, b = corners(a)[:, None], corners(b)[None]
    lo, hi = np.maximum(a[..., :2], b[..., :2]), np.minimum(a[..., 2:], b[..., 2:])
    inter = np.clip(hi - lo, 0, None).prod(-1)
    area = lambda z: (z[..., 2:] - z[..., :2]).prod(-1)
    return inter / (area(a) + area(b) - inter)


class Shapes(torch.utils.data.IterableDataset):
    """Images with a few bright squares, and targets encoded on the anchors."""

    def __init__(self, count, seed, threshold=0.4):
        self.count, self.seed, self.threshold = count, seed, threshold
        self.anchors = build_anchors()

    def encode(self, boxes, classes):
        iou = iou_matrix(self.anchors, boxes)
        best = iou.argmax(1)
        labels = np.where(iou.max(1) >= self.threshold, classes[best], 0)
        m = boxes[best]
        offsets = np.concatenate([(m[:, :2] - self.anchors[:, :2]) / self.anchors[:, 2:],
                                  np.log(m[:, 2:] / self.anchors[:, 2:])], axis=1)
        return labels.astype(np.int64), offsets.astype(np.float32)

    def __iter__(self):
        rng = np.random.default_rng(self.seed)
        for _ in range(self.count):
            k = int(rng.integers(1, 5))
            size = rng.uniform(5, 12, (k, 1)).repeat(2, 1)
            boxes = np.concatenate([rng.uniform(6, 26, (k, 2)), size], 1).astype(np.float32)
            classes = rng.integers(1, NUM_CLASSES, k)
            image = rng.normal(0, 0.1, (3, IMAGE, IMAGE)).astype(np.float32)
            for (x0, y0, x1, y1), c in zip(corners(boxes).astype(int), classes):
                image[c - 1, max(y0, 0):y1, max(x0, 0):x1] += 1.0
            labels, offsets = self.encode(boxes, classes)
            yield image, labels, offsets


class Detector(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        conv = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, stride=2, padding=1), nn.ReLU())
        self.body = nn.Sequential(conv(3, width), conv(width, width))
        self.cls = nn.Conv2d(width, len(SCALES) * NUM_CLASSES, 1)
        self.box = nn.Conv2d(width, len(SCALES) * 4, 1)

    def forward(self, x):
        h = self.body(x)
        flat = lambda z, c: z.permute(0, 2, 3, 1).reshape(x.size(0), -1, c)
        return flat(self.cls(h), NUM_CLASSES), flat(self.box(h), 4)


class LossParts(NamedTuple):
    cls: torch.Tensor
    box: torch.Tensor


class MultiBoxLoss(nn.Module):
    def __init__(self, neg_pos_ratio=3):
        super().__init__()
        self.ratio = neg_pos_ratio

    def forward(self, logits, offsets, labels, target_offsets) -> LossParts:
        positive = labels > 0
        num_pos = max(1, int(positive.sum()))
        ce = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        pos = positive.flatten().float()
        num_neg = min(self.ratio * num_pos, pos.numel() - num_pos)
        hardest, _ = (ce * (1 - pos)).topk(num_neg)
        cls = ((ce * pos).sum() + hardest.sum()) / num_pos
        diff = F.smooth_l1_loss(offsets, target_offsets, reduction="none").sum(-1)
        box = (diff * positive.float()).sum() / num_pos
        return LossParts(cls, box)


def main(steps=36, batch_size=4):
    torch.manual_seed(2)
    device = torch_xla.device()
    loader = torch.utils.data.DataLoader(Shapes(steps * batch_size, seed=8), batch_size=batch_size)
    model, criterion = Detector().to(device), MultiBoxLoss()
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    torch_xla.sync()
    for step, (images, labels, targets) in enumerate(loader, 1):
        images, labels, targets = images.to(device), labels.to(device), targets.to(device)
        logits, offsets = model(images)
        parts = criterion(logits, offsets, labels, targets)
        opt.zero_grad()
        (parts.cls + parts.box).backward()
        opt.step()
        torch_xla.sync()
        if step % 9 == 0:
            print(f"step {step}: cls {parts.cls.item():.3f} box {parts.box.item():.3f}")


if __name__ == "__main__":
    main()
