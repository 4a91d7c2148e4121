"""Land-cover segmentation on 4-band tiles (R, G, B, NIR), small U-Net."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

IGNORE = 255


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False),
        nn.GroupNorm(4, cout),
        nn.SiLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, bands=4, classes=6, width=8):
        super().__init__()
        self.enc1 = block(bands, width)
        self.enc2 = block(width, width * 2)
        self.mid = block(width * 2, width * 2)
        self.up = nn.ConvTranspose2d(width * 2, width, 2, stride=2)
        self.dec1 = block(width * 2, width)
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = self.enc2(F.avg_pool2d(e1, 2))
        m = self.mid(e2) + e2
        d1 = self.dec1(torch.cat([self.up(m), e1], dim=1))
        return self.head(d1)


class DiceLoss(nn.Module):
    def __init__(self, classes, smooth=1.0):
        super().__init__()
        self.classes = classes
        self.smooth = smooth

    def forward(self, logits, target):
        valid = target.ne(IGNORE)
        onehot = F.one_hot(target.masked_fill(~valid, 0), self.classes)
        onehot = onehot.permute(0, 3, 1, 2).to(logits.dtype)
        keep = valid.unsqueeze(1).to(logits.dtype)
        prob = (logits.softmax(dim=1) * keep).flatten(2)
        onehot = (onehot * keep).flatten(2)
        inter = (prob * onehot).sum(dim=-1)
        total = prob.sum(dim=-1) + onehot.sum(dim=-1)
        dice = (2 * inter + self.smooth) / (total + self.smooth)
        return 1 - dice.mean()


class SegLoss(nn.Module):
    def __init__(self, classes, dice_weight=0.5):
        super().__init__()
        self.dice = DiceLoss(classes)
        self.dice_weight = dice_weight

    def forward(self, logits, target):
        ce = F.cross_entropy(logits, target, ignore_index=IGNORE)
        return ce + self.dice_weight * self.dice(logits, target)


def tiles(n, batch, size, classes, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        x = rng.normal(size=(batch, 4, size, size)).astype(np.float32)
        y = rng.integers(0, classes, size=(batch, size, size))
        y[rng.random(y.shape) < 0.05] = IGNORE
        yield torch.from_numpy(x), torch.from_numpy(y)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=4)
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--size", type=int, default=16)
    ap.add_argument("--classes", type=int, default=6)
    args = ap.parse_args()

    torch.manual_seed(1)
    device = xm.xla_device()
    model = UNet(classes=args.classes).to(device).train()
    criterion = SegLoss(args.classes)
    opt = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9)
    for step, (x, y) in enumerate(tiles(args.steps, args.batch, args.size, args.classes)):
        x, y = x.to(device), y.to(device)
        opt.zero_grad(set_to_none=True)
        loss = criterion(model(x), y)
        loss.backward()
        opt.step()
        xm.mark_step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
