"""Single-shot detector on synthetic aerial tiles: find ships and tanks with a small anchor grid."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

IMG, STRIDE = 32, 4
CLASSES = 3  # background, ship, tank
SCALES = (6.0, 10.0)
NEG_POS_RATIO = 3


def anchor_grid():
    c = (np.arange(IMG // STRIDE) + 0.5) * STRIDE
    cy, cx = np.meshgrid(c, c, indexing="ij")
    boxes = [np.stack([cx, cy, np.full_like(cx, s), np.full_like(cx, s)], -1) for s in SCALES]
    return np.stack(boxes, 2).reshape(-1, 4).astype(np.float32)


ANCHORS = anchor_grid()


def iou(a, b):
    lo = np.maximum(a[:, None, :2] - a[:, None, 2:] / 2, b[None, :, :2] - b[None, :, 2:] / 2)
    hi = np.minimum(a[:, None, :2] + a[:, None, 2:] / 2, b[None, :, :2] + b[None, :, 2:] / 2)
    inter = np.clip(hi - lo, 0, None).prod(-1)
    return inter / (a[:, None, 2:].prod(-1) + b[None, :, 2:].prod(-1) - inter)


class Tiles(Dataset):
    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 100003 + i)
        img = rng.normal(0, 0.15, (3, IMG, IMG)).astype(np.float32)
        boxes, labels = [], []
        for _ in range(rng.integers(1, 6)):
            cls = int(rng.integers(1, CLASSES))
            w, h = rng.uniform(5, 12, 2) if cls == 1 else (rng.uniform(5, 11),) * 2
            cx, cy = rng.uniform(6, IMG - 6, 2)
            x0, x1 = int(max(cx - w / 2, 0)), int(min(cx + w / 2, IMG))
            y0, y1 = int(max(cy - h / 2, 0)), int(min(cy + h / 2, IMG))
            img[cls, y0:y1, x0:x1] += 1.0
            boxes.append([cx, cy, w, h])
            labels.append(cls)
        boxes = np.array(boxes, np.float32)
        ov = iou(ANCHORS, boxes)
        best = ov.argmax(1)
        cls_t = np.where(ov.max(1) > 0.4, np.array(labels)[best], 0)
        cls_t[ov.argmax(0)] = np.array(labels)
        gt = boxes[best]
        loc_t = np.concatenate([(gt[:, :2] - ANCHORS[:, :2]) / ANCHORS[:, 2:] / 0.1,
                                np.log(gt[:, 2:] / ANCHORS[:, 2:]) / 0.2], 1)
        return img, cls_t.astype(np.int64), loc_t.astype(np.float32)


class TinySSD(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        def block(i, o, s):
            return nn.Sequential(nn.Conv2d(i, o, 3, s, 1), nn.GroupNorm(4, o), nn.SiLU())
        self.body = nn.Sequential(block(3, ch, 2), block(ch, ch * 2, 2))
        self.cls = nn.Conv2d(ch * 2, len(SCALES) * CLASSES, 3, padding=1)
        self.loc = nn.Conv2d(ch * 2, len(SCALES) * 4, 3, padding=1)

    def forward(self, x):
        f = self.body(x)
        c = self.cls(f).permute(0, 2, 3, 1).reshape(x.shape[0], -1, CLASSES)
        l = self.loc(f).permute(0, 2, 3, 1).reshape(x.shape[0], -1, 4)
        return c, l


class MultiBoxLoss(nn.Module):
    def __init__(self, neg_pos=NEG_POS_RATIO, loc_weight=1.0):
        super().__init__()
        self.neg_pos, self.loc_weight = neg_pos, loc_weight

    def forward(self, conf, loc, conf_t, loc_t):
        conf, conf_t = conf.reshape(-1, CLASSES), conf_t.reshape(-1)
        pos = conf_t > 0
        n_pos = max(int(pos.sum()), 1)

        reg = F.smooth_l1_loss(loc, loc_t, reduction="none").sum(-1).reshape(-1)
        reg = torch.where(pos, reg, torch.zeros_like(reg)).sum()

        ce = F.cross_entropy(conf, conf_t, reduction="none")
        pos_ce = (ce * pos).sum()
        bg = ce.masked_fill(pos, 0.0)
        hard, _ = bg.topk(min(self.neg_pos * n_pos, bg.numel()))
        return (pos_ce + hard.sum()) / n_pos, self.loc_weight * reg / n_pos


def main():
    torch.manual_seed(5)
    device = xm.xla_device()
    loader = DataLoader(Tiles(8 * 18, seed=5), batch_size=8, shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)
    model = TinySSD().to(device)
    criterion = MultiBoxLoss()
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.05, total_steps=len(loader))

    running = torch.zeros(2, device=device)
    for step, (img, cls_t, loc_t) in enumerate(loader, 1):
        opt.zero_grad()
        c_loss, l_loss = criterion(*model(img), cls_t, loc_t)
        (c_loss + l_loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        xm.optimizer_step(opt)
        sched.step()
        running = 0.9 * running + 0.1 * torch.stack([c_loss.detach(), l_loss.detach()])
        if step % 6 == 0:
            xm.add_step_closure(
                lambda r, s: print(f"step {s} conf {r[0].item():.3f} loc {r[1].item():.3f}"),
                args=(running, step))


if __name__ == "__main__":
    main()
