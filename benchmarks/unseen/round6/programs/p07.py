"""Single-scale grid detector with focal classification and box regression."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CLASSES, GRID, IMAGE = 4, 8, 64


class Backbone(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        layers, c = [], 3
        for w in (width, width, 2 * width):
            layers += [nn.Conv2d(c, w, 3, stride=2, padding=1), nn.GroupNorm(4, w), nn.ReLU()]
            c = w
        self.net = nn.Sequential(*layers)
        self.out_channels = c

    def forward(self, x):
        return self.net(x)


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        c = self.backbone.out_channels
        self.cls = nn.Conv2d(c, CLASSES, 1)
        self.box = nn.Conv2d(c, 4, 1)

    def forward(self, x):
        f = self.backbone(x)
        cls = self.cls(f).flatten(2).transpose(1, 2)
        box = self.box(f).flatten(2).transpose(1, 2)
        return cls, box


class Shapes:
    """Synthetic scenes with one to seven rectangles, encoded per grid cell."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def scene(self):
        img = torch.zeros(3, IMAGE, IMAGE)
        label = torch.full((GRID * GRID,), -1, dtype=torch.long)
        box = torch.zeros(GRID * GRID, 4)
        for _ in range(self.rng.randint(1, 7)):
            w, h = self.rng.randint(8, 24), self.rng.randint(8, 24)
            x, y = self.rng.randint(0, IMAGE - w), self.rng.randint(0, IMAGE - h)
            c = self.rng.randrange(CLASSES)
            img[c % 3, y:y + h, x:x + w] = 0.4 + 0.15 * c
            cx, cy = x + w / 2, y + h / 2
            cell = int(cy * GRID / IMAGE) * GRID + int(cx * GRID / IMAGE)
            label[cell] = c
            box[cell] = torch.tensor([cx / IMAGE, cy / IMAGE, w / IMAGE, h / IMAGE])
        return img, label, box

    def batch(self, n):
        return [torch.stack(x) for x in zip(*[self.scene() for _ in range(n)])]


def to_corners(b):
    return torch.cat([b[..., :2] - b[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2], -1)


def giou(a, b):
    a, b = to_corners(a), to_corners(b)
    lt, rb = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    area_a = (a[..., 2:] - a[..., :2]).clamp(min=0).prod(-1)
    area_b = (b[..., 2:] - b[..., :2]).clamp(min=0).prod(-1)
    union = area_a + area_b - inter + 1e-6
    lt, rb = torch.minimum(a[..., :2], b[..., :2]), torch.maximum(a[..., 2:], b[..., 2:])
    hull = (rb - lt).clamp(min=0).prod(-1) + 1e-6
    return inter / union - (hull - union) / hull


class DetectionLoss:
    def __init__(self, gamma=2.0, box_weight=2.0):
        self.gamma, self.box_weight = gamma, box_weight

    def classification(self, logits, label):
        target = (label.unsqueeze(-1) == torch.arange(CLASSES, device=label.device)).float()
        p = logits.sigmoid()
        ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        pt = p * target + (1 - p) * (1 - target)
        return (ce * (1 - pt).pow(self.gamma)).sum()

    def regression(self, pred, target, label):
        fg = label >= 0
        p, t = pred[fg].sigmoid(), target[fg]
        return (1 - giou(p, t)).sum() + F.l1_loss(p, t, reduction="sum")

    def __call__(self, outputs, label, box):
        cls, reg = outputs
        count = (label >= 0).sum().clamp(min=1)
        total = self.classification(cls, label) + self.box_weight * self.regression(reg, box, label)
        return total / count


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Detector().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    criterion, data = DetectionLoss(), Shapes(4)
    torch_xla.sync()
    for step in range(24):
        img, label, box = (t.to(device) for t in data.batch(4))
        opt.zero_grad()
        loss = criterion(model(img), label, box)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if (step + 1) % 8 == 0:
            print(f"step {step + 1} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
