"""Anchor-free single-class detector with multi-scale training."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

STRIDE = 8


class ConvBN(nn.Module):
    def __init__(self, i, o, s=1):
        super().__init__()
        self.conv = nn.Conv2d(i, o, 3, s, 1, bias=False)
        self.bn = nn.BatchNorm2d(o)

    def forward(self, x):
        return F.silu(self.bn(self.conv(x)))


class Detector(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.backbone = nn.Sequential(ConvBN(3, width, 2), ConvBN(width, width * 2, 2), ConvBN(width * 2, width * 2, 2))
        self.neck = ConvBN(width * 2, width * 2)
        self.obj = nn.Conv2d(width * 2, 1, 1)
        self.reg = nn.Conv2d(width * 2, 4, 1)

    def forward(self, x):
        f = self.neck(self.backbone(x))
        return self.obj(f).flatten(1), self.reg(f).flatten(2).transpose(1, 2)


class Boxes:
    """One bright rectangle per image; targets are cell-wise."""

    def __init__(self, batch):
        self.batch = batch

    def get(self, size):
        g = size // STRIDE
        img = 0.1 * torch.rand(self.batch, 3, size, size)
        obj = torch.zeros(self.batch, g * g)
        box = torch.zeros(self.batch, 4)
        for b in range(self.batch):
            w, h = torch.randint(8, 17, (2,)).tolist()
            x, y = random.randrange(size - w), random.randrange(size - h)
            img[b, :, y:y + h, x:x + w] += 0.8
            cx, cy = x + w / 2, y + h / 2
            obj[b, int(cy // STRIDE) * g + int(cx // STRIDE)] = 1.0
            box[b] = torch.tensor([cx, cy, w, h])
        return img, obj, box


def decode(reg, grid):
    return torch.cat([(reg[..., :2] + grid) * STRIDE, reg[..., 2:].exp() * STRIDE], -1)


def iou_loss(p, t):
    tl = torch.maximum(p[..., :2] - p[..., 2:] / 2, t[..., :2] - t[..., 2:] / 2)
    br = torch.minimum(p[..., :2] + p[..., 2:] / 2, t[..., :2] + t[..., 2:] / 2)
    inter = (br - tl).clamp(min=0).prod(-1)
    union = p[..., 2:].prod(-1) + t[..., 2:].prod(-1) - inter
    return 1 - (inter / (union + 1e-6)) ** 2


class Exp:
    sizes = (32, 48)
    epochs, iters, no_aug_epochs = 4, 5, 1
    lr = 0.01

    def __init__(self):
        self.device = torch_xla.device()
        self.model = Detector().to(self.device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=self.lr, momentum=0.9, nesterov=True)
        self.data = Boxes(4)
        self.use_l1 = False

    def losses(self, img, obj_t, box_t, size):
        g = size // STRIDE
        obj, reg = self.model(img)
        ys, xs = torch.meshgrid(torch.arange(g), torch.arange(g), indexing="ij")
        grid = torch.stack([xs, ys], -1).reshape(1, g * g, 2).float().to(self.device)
        target = box_t[:, None, :]
        out = {"obj": F.binary_cross_entropy_with_logits(obj, obj_t, reduction="sum") / 4,
               "iou": 5.0 * (iou_loss(decode(reg, grid), target) * obj_t).sum() / 4}
        if self.use_l1:
            raw = torch.cat([target[..., :2] / STRIDE - grid, torch.log(target[..., 2:] / STRIDE).expand(-1, g * g, -1)], -1)
            out["l1"] = ((reg - raw).abs().sum(-1) * obj_t).sum() / 4
        return out

    def train(self):
        for epoch in range(self.epochs):
            if epoch == self.epochs - self.no_aug_epochs:
                self.use_l1 = True
            for it in range(self.iters):
                size = random.choice(self.sizes) if it % 2 == 0 else size
                batch = [t.to(self.device) for t in self.data.get(size)]
                losses = self.losses(*batch, size)
                loss = sum(losses.values())
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                torch_xla.sync()
            print(f"epoch {epoch} size {size} " + " ".join(f"{k} {v.item():.3f}" for k, v in losses.items()))


if __name__ == "__main__":
    random.seed(4)
    torch.manual_seed(4)
    Exp().train()
