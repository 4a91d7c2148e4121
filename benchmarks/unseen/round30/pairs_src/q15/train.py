import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def parse_args():
    p = argparse.ArgumentParser("finetune")
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--freeze-epochs", type=int, default=2)
    p.add_argument("--close-mixup", type=int, default=3)
    p.add_argument("--mixup-alpha", type=float, default=0.4)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--num-classes", type=int, default=5)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--wd", type=float, default=0.05)
    return p.parse_args()


def conv_gn(cin, cout, stride=1):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
        nn.GroupNorm(4, cout),
    )


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.a = conv_gn(cin, cout, stride)
        self.b = conv_gn(cout, cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride=stride, bias=False)

    def forward(self, x):
        y = F.relu(self.a(x))
        return F.relu(self.b(y) + self.skip(x))


class SmallResNet(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.backbone = nn.Sequential(
            conv_gn(3, 8), nn.ReLU(),
            BasicBlock(8, 16, 2),
            BasicBlock(16, 24, 2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(24, 32), nn.Tanh(), nn.Linear(32, num_classes))

    def forward(self, x):
        return self.head(self.backbone(x))


class Mixup:
    def __init__(self, alpha, num_classes, seed=3):
        self.alpha, self.num_classes = alpha, num_classes
        self.rng = np.random.default_rng(seed)
        self.enabled = True

    def __call__(self, x, y):
        y = F.one_hot(y, self.num_classes).float()
        if not self.enabled:
            return x, y
        lam = float(self.rng.beta(self.alpha, self.alpha))
        lam = min(max(lam, 0.05), 0.95)
        return lam * x + (1 - lam) * x.flip(0), lam * y + (1 - lam) * y.flip(0)


def set_trainable(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


def soft_ce(logits, target):
    return -(target * F.log_softmax(logits, dim=-1)).sum(-1).mean()


def train(args):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    device = torch_xla.device()
    model = SmallResNet(args.num_classes).to(device)
    mix = Mixup(args.mixup_alpha, args.num_classes)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=args.wd)

    images = rng.normal(size=(2 * args.batch_size, 3, 16, 16)).astype(np.float32)
    labels = rng.integers(0, args.num_classes, 2 * args.batch_size)
    for epoch in range(args.epochs):
        set_trainable(model.backbone, epoch >= args.freeze_epochs)
        mix.enabled = epoch < args.epochs - args.close_mixup
        total = 0.0
        for i in range(0, len(images), args.batch_size):
            x = torch.from_numpy(images[i:i + args.batch_size]).to(device)
            y = torch.from_numpy(labels[i:i + args.batch_size]).to(device)
            x, y = mix(x, y)
            loss = soft_ce(model(x), y)
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt, barrier=True)
            total += loss.item()
        print(f"epoch {epoch} loss {total / 2:.4f}")


if __name__ == "__main__":
    train(parse_args())
