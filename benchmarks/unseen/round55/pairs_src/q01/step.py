import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class SqueezeExcite(nn.Module):

    def __init__(self, dim, rd=4):
        super().__init__()
        self.reduce = nn.Conv2d(dim, dim // rd, 1)
        self.expand = nn.Conv2d(dim // rd, dim, 1)

    def forward(self, x):
        s = x.mean((2, 3), keepdim=True)
        s = F.silu(self.reduce(s))
        return x * torch.sigmoid(self.expand(s))


class MBConv(nn.Module):

    def __init__(self, cin, cout, stride=1, ratio=2):
        super().__init__()
        mid = cin * ratio
        self.conv_pw = nn.Conv2d(cin, mid, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(mid)
        self.conv_dw = nn.Conv2d(mid, mid, 3, stride, 1, groups=mid, bias=False)
        self.bn2 = nn.BatchNorm2d(mid)
        self.se = SqueezeExcite(mid)
        self.conv_pwl = nn.Conv2d(mid, cout, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(cout)
        self.skip = stride == 1 and cin == cout

    def forward(self, x):
        y = F.silu(self.bn1(self.conv_pw(x)))
        y = F.silu(self.bn2(self.conv_dw(y)))
        y = self.bn3(self.conv_pwl(self.se(y)))
        return x + y if self.skip else y


class EffNet(nn.Module):

    def __init__(self, num_classes=10):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 2, 1, bias=False)
        self.bn = nn.BatchNorm2d(8)
        self.blocks = nn.Sequential(MBConv(8, 8), MBConv(8, 16, 2))
        self.head = nn.Linear(16, num_classes)

    def forward(self, x):
        x = F.silu(self.bn(self.stem(x)))
        x = self.blocks(x)
        return self.head(x.mean((2, 3)))


class CutMix:

    def __init__(self, alpha, num_classes, smoothing=0.1, seed=0):
        self.alpha = alpha
        self.num_classes = num_classes
        self.smoothing = smoothing
        self.rng = random.Random(seed)

    def bbox(self, h, w, lam):
        ratio = (1 - lam) ** 0.5
        ch, cw = int(h * ratio), int(w * ratio)
        cy, cx = self.rng.randrange(h), self.rng.randrange(w)
        yl, yh = max(cy - ch // 2, 0), min(cy + ch // 2, h)
        xl, xh = max(cx - cw // 2, 0), min(cx + cw // 2, w)
        return yl, yh, xl, xh

    def one_hot(self, target):
        off = self.smoothing / self.num_classes
        oh = F.one_hot(target, self.num_classes).float()
        return oh * (1.0 - self.smoothing) + off

    def __call__(self, x, target):
        lam = self.rng.betavariate(self.alpha, self.alpha)
        h, w = x.shape[-2:]
        yl, yh, xl, xh = self.bbox(h, w, lam)
        lam = 1.0 - (yh - yl) * (xh - xl) / float(h * w)
        x = x.clone()
        x[:, :, yl:yh, xl:xh] = x.flip(0)[:, :, yl:yh, xl:xh]
        y = self.one_hot(target)
        return x, y * lam + y.flip(0) * (1.0 - lam)


def soft_ce(logits, target):
    return torch.sum(-target * F.log_softmax(logits, dim=-1), dim=-1).mean()


def global_norm(params):
    return torch.stack([p.grad.pow(2).sum() for p in params if p.grad is not None]).sum().sqrt()


def train(args):
    torch.manual_seed(args.seed)
    device = torch_xla.device()
    model = EffNet().to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    mixup = CutMix(1.0, 10, seed=args.seed)
    history = []
    torch_xla.sync()
    for step in range(args.steps):
        x = torch.randn(args.batch, 3, args.size, args.size).to(device)
        y = torch.randint(10, (args.batch,)).to(device)
        x, y = mixup(x, y)
        logits = model(x)
        loss = soft_ce(logits, y)
        optimizer.zero_grad()
        loss.backward()
        record = {"step": step, "loss": loss.detach()}
        if step % args.log_interval == 0:
            record["gnorm"] = global_norm(model.parameters())
        optimizer.step()
        torch_xla.sync()
        history.append(record)
    for record in history:
        print({k: (v.item() if torch.is_tensor(v) else v) for k, v in record.items()})


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=6)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--size", type=int, default=24)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--seed", type=int, default=3)
    p.add_argument("--log_interval", type=int, default=4)
    train(p.parse_args())
