"""Multi-class cell segmentation with a small U-Net: cross-entropy + soft Dice, gradient accumulation in one graph."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CLASSES = 3


def conv_block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False),
        nn.InstanceNorm2d(cout, affine=True),
        nn.LeakyReLU(0.01),
    )


class UNet(nn.Module):
    def __init__(self, ch=6):
        super().__init__()
        self.enc1 = conv_block(1, ch)
        self.enc2 = conv_block(ch, 2 * ch)
        self.mid = conv_block(2 * ch, 2 * ch)
        self.up = nn.ConvTranspose2d(2 * ch, ch, 2, stride=2)
        self.dec1 = conv_block(2 * ch, ch)
        self.out = nn.Conv2d(ch, CLASSES, 1)
        self.aux = nn.Conv2d(2 * ch, CLASSES, 1)

    def forward(self, x):
        e1 = self.enc1(x)
        m = self.mid(self.enc2(F.max_pool2d(e1, 2)))
        d1 = self.dec1(torch.cat([self.up(m), e1], 1))
        return self.out(d1), self.aux(m)


def soft_dice(logits, target, eps=1.0):
    p = logits.softmax(1).movedim(1, 0).flatten(1)
    y = F.one_hot(target, CLASSES).movedim(-1, 0).flatten(1).float()
    inter = (p * y).sum(1)
    dice = (2 * inter + eps) / (p.sum(1) + y.sum(1) + eps)
    return 1 - dice[1:].mean()


def criterion(outputs, target):
    main, aux = outputs
    small = target[:, ::2, ::2]
    loss = F.cross_entropy(main, target) + soft_dice(main, target)
    return loss + 0.4 * (F.cross_entropy(aux, small) + soft_dice(aux, small))


def cells(steps, batch, size=16, seed=0):
    g = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size]
    for _ in range(steps):
        img = 0.1 * g.normal(size=(batch, 1, size, size)).astype(np.float32)
        lab = np.zeros((batch, size, size), np.int64)
        for b in range(batch):
            for _ in range(g.integers(0, 4)):
                cy, cx, r = g.integers(2, size - 2), g.integers(2, size - 2), g.uniform(1.5, 4)
                d = np.hypot(yy - cy, xx - cx)
                lab[b][d < r] = 1
                lab[b][d < 0.4 * r] = 2
        img[:, 0] += 0.5 * lab
        yield torch.from_numpy(img), torch.from_numpy(lab)


def average_grads(model, n):
    for p in model.parameters():
        if p.grad is not None:
            p.grad.div_(n)


def train(args):
    torch.manual_seed(args.seed)
    device = torch_xla.device()
    xm.set_rng_state(args.seed, device)
    model = UNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.99, nesterov=True, weight_decay=3e-5)
    running = torch.zeros((), device=device)
    torch_xla.sync()

    model.train()
    for i, (img, lab) in enumerate(cells(args.steps * args.accum, args.batch)):
        img, lab = img.to(device), lab.to(device)
        loss = criterion(model(img), lab)
        loss.backward()
        running += loss.detach() / args.accum
        if (i + 1) % args.accum:
            continue
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        average_grads(model, args.accum)
        opt.step()
        opt.zero_grad()
        torch_xla.sync()
        print(i + 1, round(running.item(), 4))
        running.zero_()


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=4)
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--accum", type=int, default=2)
    ap.add_argument("--lr", type=float, default=0.01)
    ap.add_argument("--clip", type=float, default=1.0)
    ap.add_argument("--seed", type=int, default=0)
    train(ap.parse_args())
