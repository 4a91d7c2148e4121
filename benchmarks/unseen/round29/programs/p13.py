# tiny single-shot detector on synthetic squares
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BATCH = 8
IMG = 32
GRID = 8
STEPS = 40
NEG_POS = 3


def make_batch(gen):
    img = torch.rand(BATCH, 3, IMG, IMG, generator=gen) * 0.3
    cls = torch.zeros(BATCH, GRID, GRID, dtype=torch.long)
    box = torch.zeros(BATCH, GRID, GRID, 4)
    cell = IMG // GRID
    for b in range(BATCH):
        n = int(torch.randint(1, 8, (1,), generator=gen))
        for _ in range(n):
            w, h = (int(v) for v in torch.randint(4, 9, (2,), generator=gen))
            x = int(torch.randint(0, IMG - w, (1,), generator=gen))
            y = int(torch.randint(0, IMG - h, (1,), generator=gen))
            c = int(torch.randint(0, 3, (1,), generator=gen))
            img[b, c, y:y + h, x:x + w] += 0.6
            gx, gy = int((x + w / 2) // cell), int((y + h / 2) // cell)
            cls[b, gy, gx] = c + 1
            box[b, gy, gx] = torch.tensor(
                [(x + w / 2) / cell - gx, (y + h / 2) / cell - gy, math.log(w / cell), math.log(h / cell)]
            )
    return img, cls.view(BATCH, -1), box.view(BATCH, -1, 4)


def block(i, o, s):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.GroupNorm(4, o), nn.SiLU())


class TinySSD(nn.Module):
    def __init__(self, num_classes=3):
        super().__init__()
        self.body = nn.Sequential(block(3, 8, 1), block(8, 16, 2), block(16, 24, 2))
        self.cls = nn.Conv2d(24, num_classes + 1, 3, padding=1)
        self.box = nn.Conv2d(24, 4, 3, padding=1)

    def forward(self, x):
        f = self.body(x)
        return self.cls(f).flatten(2).transpose(1, 2), self.box(f).flatten(2).transpose(1, 2)


class MultiBoxLoss(nn.Module):
    def __init__(self, neg_pos):
        super().__init__()
        self.neg_pos = neg_pos

    def forward(self, cls_logits, box_pred, cls_t, box_t):
        pos = cls_t > 0
        num_pos = pos.sum().clamp(min=1)
        ce = F.cross_entropy(cls_logits.transpose(1, 2), cls_t, reduction="none")
        l_box = (F.smooth_l1_loss(box_pred, box_t, reduction="none").sum(-1) * pos).sum() / num_pos

        # hard negative mining over the whole batch
        neg_ce = ce.masked_fill(pos, 0.0).flatten()
        num_neg = min(int(self.neg_pos * num_pos), neg_ce.numel() - 1)
        hard_neg, _ = neg_ce.topk(num_neg)
        l_cls = ((ce * pos).sum() + hard_neg.sum()) / num_pos
        return l_cls, l_box


def train():
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(11)
    dev = torch_xla.device()
    net = TinySSD().to(dev)
    crit = MultiBoxLoss(NEG_POS)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    t0 = time.time()
    for it in range(1, STEPS + 1):
        with torch_xla.step():
            img, cls_t, box_t = (t.to(dev) for t in make_batch(gen))
            cls_logits, box_pred = net(img)
            l_cls, l_box = crit(cls_logits, box_pred, cls_t, box_t)
            opt.zero_grad(set_to_none=True)
            (l_cls + l_box).backward()
            opt.step()
        if it % 10 == 0:
            print("it %3d  cls %.3f  box %.3f  %.1f it/s" % (it, l_cls, l_box, it / (time.time() - t0)))


train()
