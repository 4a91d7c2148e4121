import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

# one-stage detector, single feature level, anchors = grid cells x sizes

IMG, STRIDE = 32, 4
SIZES = (6, 10, 16)
NUM_CLASSES = 3
NEG_POS_RATIO = 3


def build_anchors():
    g = torch.arange(STRIDE // 2, IMG, STRIDE).float()
    cy, cx = torch.meshgrid(g, g, indexing="ij")
    out = []
    for s in SIZES:
        half = torch.full_like(cx, s / 2)
        out.append(torch.stack([cx - half, cy - half, cx + half, cy + half], -1).reshape(-1, 4))
    return torch.cat(out)


def iou(a, b):
    lt = torch.maximum(a[:, None, :2], b[None, :, :2])
    rb = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = (rb - lt).clamp(min=0).prod(-1)
    area = lambda z: (z[:, 2] - z[:, 0]) * (z[:, 3] - z[:, 1])
    return inter / (area(a)[:, None] + area(b)[None] - inter)


def random_scene(rng, anchors):
    img = rng.normal(0, 0.1, (3, IMG, IMG)).astype(np.float32)
    boxes, labels = [], []
    for _ in range(rng.integers(1, 5)):
        s = rng.integers(5, 17)
        x, y = rng.integers(0, IMG - s, 2)
        c = rng.integers(0, NUM_CLASSES)
        img[c, y:y + s, x:x + s] += 1.0
        boxes.append([x, y, x + s, y + s])
        labels.append(c + 1)
    boxes = torch.tensor(boxes, dtype=torch.float32)
    labels = torch.tensor(labels)
    best, which = iou(anchors, boxes).max(1)
    cls = torch.where(best > 0.5, labels[which], torch.zeros_like(which))
    wh = anchors[:, 2:] - anchors[:, :2]
    ctr = (anchors[:, 2:] + anchors[:, :2]) / 2
    gb = boxes[which]
    gwh, gctr = gb[:, 2:] - gb[:, :2], (gb[:, 2:] + gb[:, :2]) / 2
    reg = torch.cat([(gctr - ctr) / wh, torch.log(gwh / wh)], 1)
    return torch.from_numpy(img), cls, reg


class TinySSD(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
        )
        self.cls = nn.Conv2d(width, len(SIZES) * (NUM_CLASSES + 1), 3, padding=1)
        self.reg = nn.Conv2d(width, len(SIZES) * 4, 3, padding=1)

    def forward(self, x):
        f = self.body(x)
        B = x.size(0)
        c = self.cls(f).view(B, len(SIZES), NUM_CLASSES + 1, -1).transpose(2, 3)
        r = self.reg(f).view(B, len(SIZES), 4, -1).transpose(2, 3)
        return c.reshape(B, -1, NUM_CLASSES + 1), r.reshape(B, -1, 4)


class MultiBoxLoss(nn.Module):
    def __init__(self, ratio):
        super().__init__()
        self.ratio = ratio

    def forward(self, logits, deltas, cls_t, reg_t):
        pos = cls_t > 0
        num_pos = pos.sum()
        ce = F.cross_entropy(logits.flatten(0, 1), cls_t.flatten(), reduction="none")
        pos_flat = pos.flatten()

        num_neg = int(self.ratio * num_pos.item())
        neg_ce = ce.masked_fill(pos_flat, 0.0)
        hard, _ = torch.topk(neg_ce, min(num_neg, neg_ce.numel()))

        denom = num_pos.clamp(min=1)
        loss_c = ((ce * pos_flat).sum() + hard.sum()) / denom
        sl1 = F.smooth_l1_loss(deltas, reg_t, reduction="none").sum(-1)
        loss_r = (sl1 * pos).sum() / denom
        return loss_c, loss_r


def main(steps=24, batch=4):
    torch.manual_seed(7)
    rng = np.random.default_rng(7)
    dev = torch_xla.device()
    anchors = build_anchors()
    net = TinySSD().to(dev)
    crit = MultiBoxLoss(NEG_POS_RATIO)
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    for it in range(steps):
        scenes = [random_scene(rng, anchors) for _ in range(batch)]
        img, cls_t, reg_t = (torch.stack(z).to(dev) for z in zip(*scenes))
        logits, deltas = net(img)
        lc, lr_ = crit(logits, deltas, cls_t, reg_t)
        opt.zero_grad()
        (lc + lr_).backward()
        xm.optimizer_step(opt, barrier=True)
        if it % 6 == 5:
            print(f"iter {it + 1}: cls {lc.item():.3f} loc {lr_.item():.3f}")


main()
