import os

os.environ.setdefault("XLA_IR_DEBUG", "1")
os.environ.setdefault("XLA_HLO_DEBUG", "1")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

NUM_CLASSES = 4
STRIDE = 8
SIZE = 48


class Shapes(Dataset):
    def __init__(self, n, seed=0, mosaic=True):
        self.n, self.seed, self.mosaic = n, seed, mosaic

    def __len__(self):
        return self.n

    def _one(self, rng, k):
        img = rng.random((3, SIZE, SIZE), dtype=np.float32)
        cxy = rng.uniform(8, SIZE - 8, (k, 2))
        wh = rng.uniform(6, 20, (k, 2))
        cls = rng.integers(0, NUM_CLASSES, (k, 1))
        return img, np.concatenate([cls, cxy, wh], 1).astype(np.float32)

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 9973 + i)
        img, lab = self._one(rng, int(rng.integers(2, 4)))
        if self.mosaic:
            for dy in (0, 1):
                tile, extra = self._one(rng, int(rng.integers(1, 3)))
                h = SIZE // 2
                img[:, dy * h:(dy + 1) * h, h:] = tile[:, ::2, ::2]
                extra[:, 1:] *= 0.5
                extra[:, 1] += h
                extra[:, 2] += dy * h
                lab = np.concatenate([lab, extra], 0)
        return img, lab


def collate(samples):
    imgs = torch.from_numpy(np.stack([s[0] for s in samples]))
    m = max(len(s[1]) for s in samples)
    labels = torch.zeros(len(samples), m, 5)
    for i, (_, lab) in enumerate(samples):
        labels[i, :len(lab)] = torch.from_numpy(lab)
    return imgs, labels


def conv_bn(c_in, c_out, k=3, s=1):
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, k, s, k // 2, bias=False),
        nn.BatchNorm2d(c_out),
        nn.SiLU(),
    )


class Detector(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.backbone = nn.Sequential(conv_bn(3, width, s=2), conv_bn(width, width, s=2), conv_bn(width, 2 * width, s=2))
        self.cls_pred = nn.Conv2d(2 * width, NUM_CLASSES, 1)
        self.reg_pred = nn.Conv2d(2 * width, 4, 1)
        self.obj_pred = nn.Conv2d(2 * width, 1, 1)
        g = torch.arange(SIZE // STRIDE, dtype=torch.float32)
        yy, xx = torch.meshgrid(g, g, indexing="ij")
        self.register_buffer("grid", torch.stack([xx, yy], -1).view(-1, 2))

    def forward(self, x):
        f = self.backbone(x)
        out = torch.cat([self.reg_pred(f), self.obj_pred(f), self.cls_pred(f)], 1)
        return out.flatten(2).transpose(1, 2)


class DetLoss(nn.Module):
    def __init__(self, grid):
        super().__init__()
        self.grid = grid
        self.use_l1 = False

    def decode(self, reg):
        xy = (reg[..., :2] + self.grid) * STRIDE
        wh = reg[..., 2:].clamp(max=4.0).exp() * STRIDE
        return torch.cat([xy, wh], -1)

    @staticmethod
    def iou(a, b):
        tl = torch.maximum(a[..., :2] - a[..., 2:] / 2, b[..., :2] - b[..., 2:] / 2)
        br = torch.minimum(a[..., :2] + a[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2)
        inter = (br - tl).clamp(min=0).prod(-1)
        union = a[..., 2:].prod(-1) + b[..., 2:].prod(-1) - inter
        return inter / (union + 1e-6)

    @torch.no_grad()
    def assign(self, boxes, labels):
        gt = labels[:, :, 1:]
        valid = labels[:, :, 3] > 0
        centers = (self.grid + 0.5) * STRIDE
        d = (centers[None, None] - gt[:, :, None, :2]).abs().amax(-1)
        near = (d < 1.5 * STRIDE) & valid[..., None]
        cost = torch.where(near, 1.0 - self.iou(gt[:, :, None], boxes[:, None]), torch.full_like(d, 1e4))
        best, idx = cost.min(1)
        fg = (best < 1e3).float()
        return fg, torch.gather(labels, 1, idx[..., None].expand(-1, -1, 5))

    def forward(self, out, labels):
        reg, obj, cls = out[..., :4], out[..., 4], out[..., 5:]
        boxes = self.decode(reg)
        fg, tgt = self.assign(boxes.detach(), labels)
        n = fg.sum().clamp(min=1)
        iou = self.iou(boxes, tgt[..., 1:])
        loss_iou = ((1 - iou.square()) * fg).sum() / n
        loss_obj = F.binary_cross_entropy_with_logits(obj, fg, reduction="sum") / n
        onehot = F.one_hot(tgt[..., 0].long(), NUM_CLASSES).float() * iou.detach()[..., None]
        loss_cls = (F.binary_cross_entropy_with_logits(cls, onehot, reduction="none") * fg[..., None]).sum() / n
        loss = 5.0 * loss_iou + loss_obj + loss_cls
        if self.use_l1:
            t_xy = tgt[..., 1:3] / STRIDE - self.grid
            t_wh = torch.log(tgt[..., 3:] / STRIDE + 1e-8)
            l1 = F.l1_loss(reg, torch.cat([t_xy, t_wh], -1), reduction="none")
            loss = loss + (l1 * fg[..., None]).sum() / n
        return loss


def main(max_epoch=3, no_aug_epochs=1):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Detector().to(device)
    criterion = DetLoss(model.grid)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4)
    train = Shapes(24)
    torch_xla.sync()
    for epoch in range(max_epoch):
        if epoch == max_epoch - no_aug_epochs:
            train.mosaic = False
            criterion.use_l1 = True
        for imgs, labels in DataLoader(train, batch_size=6, collate_fn=collate):
            imgs, labels = imgs.to(device), labels.to(device)
            opt.zero_grad(set_to_none=True)
            loss = criterion(model(imgs), labels)
            loss.backward()
            opt.step()
            torch_xla.sync()
        print(epoch, f"{loss.item():.3f}")


if __name__ == "__main__":
    main()
