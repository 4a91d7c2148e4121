"""Single-scale anchor detector with hard negative mining (SSD recipe)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

IMG = 32
STRIDE = 4
GRID = IMG // STRIDE
SIZES = (6.0, 12.0)
NEG_RATIO = 3
NUM_CLASSES = 3


def make_anchors():
    c = (torch.arange(GRID, dtype=torch.float32) + 0.5) * STRIDE
    cy, cx = torch.meshgrid(c, c, indexing="ij")
    out = []
    for s in SIZES:
        out.append(torch.stack([cx - s / 2, cy - s / 2, cx + s / 2, cy + s / 2], -1))
    return torch.stack(out, 2).reshape(-1, 4)


def iou(a, b):
    lt = torch.maximum(a[:, None, :2], b[None, :, :2])
    rb = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    area = lambda x: (x[:, 2] - x[:, 0]) * (x[:, 3] - x[:, 1])
    return inter / (area(a)[:, None] + area(b)[None] - inter)


def sample(gen, anchors):
    """One image with two rectangles, plus per-anchor targets."""
    img = 0.1 * torch.randn(3, IMG, IMG, generator=gen)
    boxes, labels = [], []
    for _ in range(2):
        w, h = torch.randint(5, 14, (2,), generator=gen).tolist()
        x = int(torch.randint(0, IMG - w, (1,), generator=gen))
        y = int(torch.randint(0, IMG - h, (1,), generator=gen))
        k = int(torch.randint(0, NUM_CLASSES, (1,), generator=gen))
        img[k, y : y + h, x : x + w] += 1.0
        boxes.append([x, y, x + w, y + h])
        labels.append(k + 1)
    boxes = torch.tensor(boxes, dtype=torch.float32)
    labels = torch.tensor(labels)
    best, idx = iou(anchors, boxes).max(1)
    cls = torch.where(best > 0.4, labels[idx], torch.zeros_like(idx))
    delta = (boxes[idx] - anchors) / STRIDE
    return img, cls, delta


class TinySSD(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.gn1 = nn.GroupNorm(3, width)
        self.body = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.gn2 = nn.GroupNorm(3, 2 * width)
        self.cls = nn.Conv2d(2 * width, len(SIZES) * (NUM_CLASSES + 1), 3, padding=1)
        self.reg = nn.Conv2d(2 * width, len(SIZES) * 4, 3, padding=1)

    def forward(self, x):
        x = F.relu(self.gn1(self.stem(x)))
        x = F.relu(self.gn2(self.body(x)))
        b = x.shape[0]
        cls = self.cls(x).permute(0, 2, 3, 1).reshape(b, -1, NUM_CLASSES + 1)
        reg = self.reg(x).permute(0, 2, 3, 1).reshape(b, -1, 4)
        return cls, reg


def multibox_loss(cls, reg, cls_t, reg_t):
    pos = cls_t > 0
    n_pos = max(int(pos.sum().item()), 1)
    box = F.smooth_l1_loss(reg, reg_t, reduction="none").sum(-1)
    box = (box * pos).sum() / n_pos

    ce = F.cross_entropy(cls.flatten(0, 1), cls_t.flatten(), reduction="none")
    is_pos = pos.flatten()
    neg_ce = ce.masked_fill(is_pos, 0.0)
    hard, _ = torch.topk(neg_ce, min(NEG_RATIO * n_pos, neg_ce.numel()))
    conf = ((ce * is_pos).sum() + hard.sum()) / n_pos
    return box + conf


def main(steps=7, batch=3):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(2)
    anchors = make_anchors()
    dev = torch_xla.device()
    net = TinySSD().to(dev)
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    losses = []
    for _ in range(steps):
        img, cls_t, reg_t = (torch.stack(z).to(dev) for z in zip(*[sample(gen, anchors) for _ in range(batch)]))
        with torch_xla.step():
            opt.zero_grad()
            cls, reg = net(img)
            loss = multibox_loss(cls, reg, cls_t, reg_t)
            loss.backward()
            opt.step()
        losses.append(loss.detach())
    print("losses:", [f"{l.item():.3f}" for l in losses])


if __name__ == "__main__":
    main()
