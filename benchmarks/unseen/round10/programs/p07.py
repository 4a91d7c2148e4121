"""Single-stage detector on synthetic squares: one anchor per cell, focal + box loss."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

IMG, STRIDE, CLASSES = 32, 4, 3
GRID = IMG // STRIDE


class Squares:
    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def scene(self):
        img = self.rng.normal(0, 0.1, (3, IMG, IMG)).astype(np.float32)
        objects = []
        for _ in range(self.rng.integers(1, 6)):
            size = int(self.rng.integers(5, 12))
            x, y = self.rng.integers(0, IMG - size, 2)
            c = int(self.rng.integers(0, CLASSES))
            img[c, y:y + size, x:x + size] += 1.0
            objects.append((c, x, y, x + size, y + size))
        return img, objects

    def batch(self, n):
        imgs = np.zeros((n, 3, IMG, IMG), np.float32)
        cls = np.full((n, GRID, GRID), -1, np.int64)
        box = np.zeros((n, GRID, GRID, 4), np.float32)
        for b in range(n):
            imgs[b], objects = self.scene()
            for c, x0, y0, x1, y1 in objects:
                cx, cy = (x0 + x1) / 2, (y0 + y1) / 2
                for gy in range(GRID):
                    for gx in range(GRID):
                        px, py = (gx + 0.5) * STRIDE, (gy + 0.5) * STRIDE
                        if abs(px - cx) < 3 and abs(py - cy) < 3:
                            cls[b, gy, gx] = c
                            box[b, gy, gx] = np.array([px - x0, py - y0, x1 - px, y1 - py]) / STRIDE
        return torch.from_numpy(imgs), torch.from_numpy(cls), torch.from_numpy(box)


def conv(a, b, stride=1):
    return nn.Sequential(nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.GroupNorm(4, b), nn.SiLU())


class Detector(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.backbone = nn.Sequential(conv(3, width, 2), conv(width, width * 2, 2), conv(width * 2, width * 2))
        self.cls = nn.Sequential(conv(width * 2, width), nn.Conv2d(width, CLASSES, 1))
        self.reg = nn.Sequential(conv(width * 2, width), nn.Conv2d(width, 4, 1))
        nn.init.constant_(self.cls[-1].bias, -2.0)

    def forward(self, x):
        f = self.backbone(x)
        return self.cls(f).permute(0, 2, 3, 1), self.reg(f).permute(0, 2, 3, 1)


def focal(logits, target, alpha=0.25, gamma=2.0):
    p = logits.sigmoid()
    ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    pt = p * target + (1 - p) * (1 - target)
    w = alpha * target + (1 - alpha) * (1 - target)
    return (w * (1 - pt) ** gamma * ce).sum()


def iou_loss(pred, target):
    pred = F.softplus(pred)
    area = lambda d: (d[:, 0] + d[:, 2]) * (d[:, 1] + d[:, 3])
    m = torch.minimum(pred, target)
    inter = area(m)
    return -(inter / (area(pred) + area(target) - inter + 1e-6)).clamp(min=1e-6).log()


class Criterion(nn.Module):
    def forward(self, outputs, cls_target, box_target):
        logits, deltas = outputs
        positive = cls_target >= 0
        one_hot = F.one_hot(cls_target.clamp(min=0), CLASSES).float() * positive.unsqueeze(-1)
        normalizer = positive.sum().clamp(min=1).float()
        cls_loss = focal(logits, one_hot) / normalizer
        box_loss = iou_loss(deltas[positive], box_target[positive]).mean()
        return {"cls": cls_loss, "box": box_loss}


def main(steps=12, batch_size=6):
    torch.manual_seed(0)
    device = xm.xla_device()
    data = Squares(seed=2)
    model = Detector().to(device)
    criterion = Criterion()
    optim = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(steps):
        images, cls_t, box_t = (t.to(device) for t in data.batch(batch_size))
        losses = criterion(model(images), cls_t, box_t)
        loss = losses["cls"] + 0.5 * losses["box"]
        optim.zero_grad()
        loss.backward()
        optim.step()
        xm.mark_step()
        if step % 4 == 0:
            print(f"step {step}", {k: round(v.item(), 4) for k, v in losses.items()})


if __name__ == "__main__":
    main()
