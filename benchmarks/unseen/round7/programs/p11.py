"""Dense one-stage detector head on synthetic scenes: focal classification and box regression."""
import math

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

GRID, STRIDE, CLASSES, BATCH = 6, 4, 3, 6


class Scenes(torch.utils.data.IterableDataset):
    def __init__(self, batches, seed):
        self.batches, self.seed = batches, seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        size = GRID * STRIDE
        for _ in range(self.batches):
            image = 0.1 * torch.randn(BATCH, 3, size, size, generator=g)
            cls = torch.zeros(BATCH, CLASSES, GRID, GRID)
            box = torch.zeros(BATCH, 4, GRID, GRID)
            for b in range(BATCH):
                c = torch.randint(0, CLASSES, (1,), generator=g).item()
                y, x = torch.randint(2, size - 6, (2,), generator=g).tolist()
                h, w = torch.randint(3, 6, (2,), generator=g).tolist()
                image[b, c, y:y + h, x:x + w] += 1.0
                gy, gx = (y + h // 2) // STRIDE, (x + w // 2) // STRIDE
                cls[b, c, gy, gx] = 1.0
                box[b, :, gy, gx] = torch.tensor([y, x, h, w]) / size
            yield image, cls, box


class Detector(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, width, 3, stride=2, padding=1), nn.ReLU(),
                                      nn.Conv2d(width, width, 3, stride=2, padding=1), nn.ReLU())
        self.cls = nn.Conv2d(width, CLASSES, 3, padding=1)
        self.box = nn.Conv2d(width, 4, 3, padding=1)
        nn.init.constant_(self.cls.bias, -math.log(99))

    def forward(self, x):
        h = self.backbone(x)
        return self.cls(h), self.box(h).sigmoid()


class FocalLoss(nn.Module):
    def __init__(self, alpha=0.25, gamma=2.0):
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, logits, target):
        p = torch.sigmoid(logits)
        p_t = p * target + (1 - p) * (1 - target)
        alpha_t = self.alpha * target + (1 - self.alpha) * (1 - target)
        ce = -torch.log(p_t.clamp_min(1e-6))
        return (alpha_t * (1 - p_t) ** self.gamma * ce).sum() / target.sum().clamp_min(1)


class DetectionLoss(nn.Module):
    def __init__(self, box_weight):
        super().__init__()
        self.focal = FocalLoss(gamma=0.5)
        self.box_weight = box_weight

    def forward(self, out, cls, box):
        logits, pred = out
        positive = cls.amax(1, keepdim=True)
        l1 = ((pred - box).abs() * positive).sum() / positive.sum().clamp_min(1)
        return self.focal(logits, cls), self.box_weight * l1


class CosineRamp:
    """Moves an attribute from its present value to `end` over `steps` calls."""

    def __init__(self, owner, attr, end, steps):
        self.owner, self.attr, self.end, self.steps = owner, attr, end, steps
        self.start, self.n = getattr(owner, attr), 0

    def step(self):
        self.n = min(self.n + 1, self.steps)
        w = 0.5 * (1 - math.cos(math.pi * self.n / self.steps))
        setattr(self.owner, self.attr, self.start + w * (self.end - self.start))


def train(steps):
    torch.manual_seed(4)
    device = torch_xla.device()
    model = Detector().to(device)
    criterion = DetectionLoss(box_weight=2.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    ramps = [CosineRamp(criterion.focal, 'gamma', 2.0, 12), CosineRamp(criterion, 'box_weight', 5.0, steps)]
    xm.mark_step()
    for i, (image, cls, box) in enumerate(Scenes(steps, 17), 1):
        optimizer.zero_grad()
        cls_loss, box_loss = criterion(model(image.to(device)), cls.to(device), box.to(device))
        (cls_loss + box_loss).backward()
        optimizer.step()
        xm.mark_step()
        for ramp in ramps:
            ramp.step()
        if i % 10 == 0:
            print(f'step {i} cls {cls_loss.item():.3f} box {box_loss.item():.3f}')


if __name__ == '__main__':
    train(30)
