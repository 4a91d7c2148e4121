"""Single-shot detector on toy scenes: anchor matching, hard-negative mining, box loss."""
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class DetConfig:
    image: int = 32
    stride: int = 8
    scales: tuple = (6.0, 12.0)
    classes: int = 4
    batch: int = 6
    width: int = 12
    neg_ratio: int = 3
    match_iou: float = 0.4
    steps: int = 30
    lr: float = 2e-3


class Scenes:
    """Coloured squares on noise; between one and seven objects per image."""

    def __init__(self, cfg, seed=0):
        self.cfg, self.rng = cfg, random.Random(seed)
        self.g = torch.Generator().manual_seed(seed)

    def sample(self):
        size = self.cfg.image
        img = 0.1 * torch.randn(3, size, size, generator=self.g)
        boxes, labels = [], []
        for _ in range(min(7, 1 + int(self.rng.expovariate(0.6)))):
            s = self.rng.choice((5, 7, 10, 13))
            x, y = self.rng.randrange(size - s), self.rng.randrange(size - s)
            c = self.rng.randrange(self.cfg.classes)
            img[c % 3, y:y + s, x:x + s] += 1.0 + 0.5 * (c // 3)
            boxes.append([x, y, x + s, y + s])
            labels.append(c + 1)
        return img, boxes, labels

    def loader(self):
        while True:
            yield collate([self.sample() for _ in range(self.cfg.batch)])


def collate(samples):
    images = torch.stack([s[0] for s in samples])
    most = max(len(s[1]) for s in samples)
    boxes = torch.zeros(len(samples), most, 4)
    labels = torch.zeros(len(samples), most, dtype=torch.long)
    for i, (_, b, l) in enumerate(samples):
        boxes[i, :len(b)] = torch.tensor(b, dtype=torch.float32)
        labels[i, :len(l)] = torch.tensor(l)
    return images, boxes, labels


def make_anchors(cfg):
    centres = torch.arange(cfg.image // cfg.stride) * cfg.stride + cfg.stride / 2
    cy, cx = torch.meshgrid(centres, centres, indexing="ij")
    out = [torch.stack([cx - s / 2, cy - s / 2, cx + s / 2, cy + s / 2], -1) for s in cfg.scales]
    return torch.stack(out, 2).reshape(-1, 4)


def pairwise_iou(a, b):
    lt = torch.maximum(a[:, :, None, :2], b[:, None, :, :2])
    rb = torch.minimum(a[:, :, None, 2:], b[:, None, :, 2:])
    inter = (rb - lt).clamp_min(0).prod(-1)
    area = lambda z: (z[..., 2] - z[..., 0]) * (z[..., 3] - z[..., 1])
    return inter / (area(a)[:, :, None] + area(b)[:, None, :] - inter).clamp_min(1e-6)


class Detector(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w, a = cfg.width, len(cfg.scales)
        self.cfg = cfg
        self.backbone = nn.Sequential(
            nn.Conv2d(3, w, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(w, w, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(w, 2 * w, 3, stride=2, padding=1), nn.ReLU())
        self.cls = nn.Conv2d(2 * w, a * (cfg.classes + 1), 1)
        self.box = nn.Conv2d(2 * w, a * 4, 1)

    def forward(self, x):
        h = self.backbone(x)
        flat = lambda y, k: y.permute(0, 2, 3, 1).reshape(x.shape[0], -1, k)
        return flat(self.cls(h), self.cfg.classes + 1), flat(self.box(h), 4)


class Criterion:
    def __init__(self, cfg, anchors):
        self.cfg, self.anchors = cfg, anchors

    def match(self, boxes, labels):
        anchors = self.anchors.expand(boxes.shape[0], -1, -1)
        best, which = pairwise_iou(anchors, boxes).max(dim=2)
        target = labels.gather(1, which) * (best > self.cfg.match_iou)
        matched = boxes.gather(1, which[..., None].expand(-1, -1, 4))
        return target, matched

    def mine(self, loss, positive):
        count = self.cfg.neg_ratio * int(positive.sum().item())
        count = max(1, min(count, loss.numel()))
        hard, _ = torch.topk(torch.where(positive, -1e4, loss).flatten(), count)
        return hard.clamp_min(0).sum()

    def __call__(self, cls, box, boxes, labels):
        target, matched = self.match(boxes, labels)
        positive = target > 0
        ce = F.cross_entropy(cls.flatten(0, 1), target.flatten(), reduction="none")
        ce = ce.view_as(target)
        n = positive.sum().clamp_min(1)
        cls_loss = ((ce * positive).sum() + self.mine(ce, positive)) / n
        offset = (matched - self.anchors) / 8.0
        reg = F.smooth_l1_loss(box, offset, reduction="none").sum(-1)
        return cls_loss + (reg * positive).sum() / n


def main(cfg=DetConfig()):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Detector(cfg).to(device)
    criterion = Criterion(cfg, make_anchors(cfg).to(device))
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9, weight_decay=1e-4)
    for step, batch in enumerate(Scenes(cfg).loader()):
        if step == cfg.steps:
            break
        images, boxes, labels = (t.to(device) for t in batch)
        opt.zero_grad()
        loss = criterion(*model(images), boxes, labels)
        loss.backward()
        opt.step()
        torch_xla.sync()
        if step % 6 == 0:
            print(f"step {step:3d} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
