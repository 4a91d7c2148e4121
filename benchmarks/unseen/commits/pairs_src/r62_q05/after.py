"""2-D residual U-Net for cardiac short-axis MRI."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class ConvUnit(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1, bias=False)
        self.gn = nn.GroupNorm(2, cout)

    def forward(self, x):
        return F.leaky_relu(self.gn(self.conv(x)), 0.01)


class UNet(nn.Module):
    def __init__(self, cin=1, classes=4, width=6):
        super().__init__()
        self.stem = ConvUnit(cin, width)
        self.down = ConvUnit(width, 2 * width)
        self.bottom = ConvUnit(2 * width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.merge = ConvUnit(2 * width, width)
        self.out = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        a = self.stem(x)
        b = self.down(F.max_pool2d(a, 2))
        b = b + self.bottom(b)
        return self.out(self.merge(torch.cat([a, self.up(b)], 1)))


class DiceCELoss(nn.Module):
    def __init__(self, classes, smooth=1e-3, ce_weight=0.4, top=0.1):
        super().__init__()
        self.classes, self.smooth, self.ce_weight = classes, smooth, ce_weight
        self.top = top

    def forward(self, logits, target):
        prob = logits.softmax(1)
        onehot = F.one_hot(target, self.classes).permute(0, 3, 1, 2).to(prob.dtype)
        inter = (prob * onehot).sum((2, 3))
        denom = prob.sum((2, 3)) + onehot.sum((2, 3))
        dice = (2.0 * inter + self.smooth) / (denom + self.smooth)
        ce = F.cross_entropy(logits, target, reduction="none").flatten(1)
        ce = ce.topk(max(1, int(self.top * ce.shape[1])), dim=1).values.mean()
        return 1.0 - dice[:, 1:].mean() + self.ce_weight * ce


def param_groups(model, weight_decay):
    decay, plain = [], []
    for p in model.parameters():
        (plain if p.ndim <= 1 else decay).append(p)
    return [{"params": decay, "weight_decay": weight_decay},
            {"params": plain, "weight_decay": 0.0}]


class Slices:
    def __init__(self, batch, size, seed):
        self.rng, self.batch, self.size = np.random.default_rng(seed), batch, size

    def next(self):
        yy, xx = np.mgrid[:self.size, :self.size] - self.size / 2
        r = np.hypot(yy, xx)[None] + self.rng.normal(0, 1, size=(self.batch, 1, 1))
        target = np.digitize(-r, [-6.0, -4.0, -2.0])
        image = target + 0.5 * self.rng.normal(size=target.shape)
        return (torch.tensor(image[:, None], dtype=torch.float32),
                torch.tensor(target, dtype=torch.int64))


def zscore(x):
    mean = x.mean((1, 2, 3), keepdim=True)
    std = x.std((1, 2, 3), keepdim=True)
    return (x - mean) / (std + 1e-5)


def poly(step, total=200, power=0.9):
    return (1.0 - step / total) ** power


def main(args):
    device = torch_xla.device()
    torch.manual_seed(args.seed)
    model = UNet().to(device)
    criterion = DiceCELoss(4)
    opt = torch.optim.AdamW(param_groups(model, args.wd), lr=args.lr)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, poly)
    data = Slices(args.batch, args.size, args.seed)
    torch_xla.sync()
    for step in range(args.steps):
        image, target = (x.to(device) for x in data.next())
        opt.zero_grad()
        loss = criterion(model(zscore(image)), target)
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()
        print(step, "%.4f" % loss.item())


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=3)
    ap.add_argument("--size", type=int, default=16)
    ap.add_argument("--steps", type=int, default=4)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--wd", type=float, default=1e-2)
    ap.add_argument("--seed", type=int, default=2)
    main(ap.parse_args())
