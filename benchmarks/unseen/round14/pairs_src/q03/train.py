"""Leaf disease classification with a small ConvNeXt-like network.

Trains from scratch on (synthetic) 16x16 crops and reports the validation
accuracy a few times over the run.
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class ChannelNorm(nn.Module):
    """Layer norm over channels for NCHW tensors."""

    def __init__(self, channels, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels, 1, 1))
        self.bias = nn.Parameter(torch.zeros(channels, 1, 1))
        self.eps = eps

    def forward(self, x):
        mu = x.mean(dim=1, keepdim=True)
        var = (x - mu).square().mean(dim=1, keepdim=True)
        return (x - mu) * torch.rsqrt(var + self.eps) * self.weight + self.bias


class Block(nn.Module):
    def __init__(self, width, drop):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 5, padding=2, groups=width)
        self.norm = ChannelNorm(width)
        self.expand = nn.Conv2d(width, 2 * width, 1)
        self.reduce = nn.Conv2d(2 * width, width, 1)
        self.drop = nn.Dropout2d(drop)
        self.gain = nn.Parameter(torch.full((width, 1, 1), 0.1))

    def forward(self, x):
        h = self.norm(self.depthwise(x))
        h = self.reduce(F.gelu(self.expand(h)))
        return x + self.drop(self.gain * h)


class LeafNet(nn.Module):
    def __init__(self, width, classes, drop):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, stride=4)
        self.blocks = nn.Sequential(*(Block(width, drop) for _ in range(2)))
        self.norm = ChannelNorm(width)
        self.head = nn.Sequential(nn.Dropout(drop), nn.Linear(width, classes))

    def forward(self, images):
        x = self.norm(self.blocks(self.stem(images)))
        return self.head(x.mean(dim=(2, 3)))


class CropSet:
    """Random crops with a class-dependent tint, so that there is something to learn."""

    def __init__(self, size, classes, seed):
        gen = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, classes, (size,), generator=gen)
        tint = torch.rand(classes, 3, 1, 1, generator=gen)
        self.images = 0.6 * torch.rand(size, 3, 16, 16, generator=gen) + 0.4 * tint[self.labels]
        self.gen = gen

    def batches(self, batch, shuffle):
        n = len(self.labels)
        order = torch.randperm(n, generator=self.gen) if shuffle else torch.arange(n)
        for start in range(0, n - batch + 1, batch):
            pick = order[start:start + batch]
            yield self.images[pick], self.labels[pick]


class Trainer:
    def __init__(self, args):
        self.args = args
        self.device = torch_xla.device()
        self.train_set = CropSet(8 * args.batch, args.classes, args.seed)
        self.val_set = CropSet(3 * args.batch, args.classes, args.seed + 1)
        self.model = LeafNet(args.width, args.classes, args.drop).to(self.device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=args.lr)

    def train_epoch(self):
        for images, labels in self.train_set.batches(self.args.batch, shuffle=True):
            logits = self.model(images.to(self.device))
            loss = F.cross_entropy(logits, labels.to(self.device))
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            torch_xla.sync()
        return loss.item()

    @torch.no_grad()
    def accuracy(self):
        self.model.eval()
        hits = torch.zeros((), device=self.device)
        for images, labels in self.val_set.batches(self.args.batch, shuffle=False):
            guess = self.model(images.to(self.device)).argmax(dim=1)
            hits += (guess == labels.to(self.device)).sum()
            torch_xla.sync()
        return hits.item() / len(self.val_set.labels)

    def fit(self):
        self.model.train()
        for epoch in range(self.args.epochs):
            loss = self.train_epoch()
            line = f"epoch {epoch}: loss {loss:.4f}"
            if (epoch + 1) % self.args.val_every == 0:
                line += f"  val acc {self.accuracy():.3f}"
            print(line)


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--width", type=int, default=12)
    p.add_argument("--classes", type=int, default=5)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--val-every", type=int, default=2)
    p.add_argument("--drop", type=float, default=0.15)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=3)
    return p.parse_args()


if __name__ == "__main__":
    args = parse_args()
    torch.manual_seed(args.seed)
    Trainer(args).fit()
