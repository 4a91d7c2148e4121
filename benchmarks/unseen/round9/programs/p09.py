"""Anchor-free detector (FCOS-like) on synthetic rectangles."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

IMG = 48
STRIDE = 4
GRID = IMG // STRIDE
NUM_CLASSES = 3


class Backbone(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.c1 = nn.Conv2d(3, ch, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(ch, 2 * ch, 3, stride=2, padding=1)
        self.c3 = nn.Conv2d(2 * ch, 2 * ch, 3, padding=1)
        self.n1, self.n2, self.n3 = nn.GroupNorm(4, ch), nn.GroupNorm(4, 2 * ch), nn.GroupNorm(4, 2 * ch)

    def forward(self, x):
        x = F.relu(self.n1(self.c1(x)))
        x = F.relu(self.n2(self.c2(x)))
        return F.relu(self.n3(self.c3(x)))


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.cls_head = nn.Conv2d(32, NUM_CLASSES, 1)
        self.box_head = nn.Conv2d(32, 4, 1)
        nn.init.constant_(self.cls_head.bias, -3.0)

    def forward(self, images):
        f = self.backbone(images)
        cls = self.cls_head(f).flatten(2).transpose(1, 2)
        box = self.box_head(f).flatten(2).transpose(1, 2)
        return cls, F.softplus(box)


class Rectangles:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def sample(self):
        img = self.rng.normal(0, 0.1, (3, IMG, IMG)).astype(np.float32)
        label = np.zeros((GRID, GRID), dtype=np.int64)
        box = np.zeros((GRID, GRID, 4), dtype=np.float32)
        for _ in range(self.rng.integers(1, 4)):
            c = int(self.rng.integers(0, NUM_CLASSES))
            w, h = self.rng.integers(8, 24, 2)
            x0, y0 = self.rng.integers(0, IMG - w), self.rng.integers(0, IMG - h)
            img[c, y0:y0 + h, x0:x0 + w] += 1.0
            for gy in range(GRID):
                for gx in range(GRID):
                    cx, cy = (gx + 0.5) * STRIDE, (gy + 0.5) * STRIDE
                    if x0 <= cx < x0 + w and y0 <= cy < y0 + h:
                        label[gy, gx] = c + 1
                        box[gy, gx] = (cx - x0, cy - y0, x0 + w - cx, y0 + h - cy)
        return img, label.reshape(-1), box.reshape(-1, 4) / STRIDE

    def batch(self, n):
        img, label, box = zip(*[self.sample() for _ in range(n)])
        return tuple(torch.from_numpy(np.stack(v)) for v in (img, label, box))


def focal_loss(logits, labels, alpha=0.25, gamma=2.0):
    target = F.one_hot(labels, NUM_CLASSES + 1)[..., 1:].float()
    p = logits.sigmoid()
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    p_t = p * target + (1 - p) * (1 - target)
    a_t = alpha * target + (1 - alpha) * (1 - target)
    return (a_t * (1 - p_t) ** gamma * ce).sum()


def iou_loss(pred, target):
    inter = (torch.min(pred[:, 0], target[:, 0]) + torch.min(pred[:, 2], target[:, 2])) * \
            (torch.min(pred[:, 1], target[:, 1]) + torch.min(pred[:, 3], target[:, 3]))
    area = lambda b: (b[:, 0] + b[:, 2]) * (b[:, 1] + b[:, 3])
    union = area(pred) + area(target) - inter
    return -torch.log((inter + 1.0) / (union + 1.0))


def detection_loss(cls, box, labels, boxes):
    pos = labels > 0
    num_pos = pos.sum().clamp(min=1).float()
    loss_cls = focal_loss(cls, labels) / num_pos
    loss_box = iou_loss(box[pos], boxes[pos]).sum() / num_pos
    return loss_cls, loss_box


def main(iterations=11, batch_size=4):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Detector().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda it: min(1.0, (it + 1) / 6))
    data = Rectangles(0)
    for it in range(iterations):
        images, labels, boxes = (t.to(device) for t in data.batch(batch_size))
        cls, box = model(images)
        loss_cls, loss_box = detection_loss(cls, box, labels, boxes)
        optimizer.zero_grad()
        (loss_cls + loss_box).backward()
        optimizer.step()
        scheduler.step()
        torch_xla.sync()
        if it % 5 == 0:
            print(f"it {it} cls {loss_cls.item():.4f} box {loss_box.item():.4f}")


if __name__ == "__main__":
    main()
