"""Leaf disease classifier: small residual encoder with a cosine head.

Trained on 32x32 crops; at the end of every epoch the nearest-prototype
accuracy on the support split is logged next to the training loss.
"""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from timm.layers import DropPath

NUM_CLASSES = 7
BATCH = 16
EPOCHS = 3


class Residual(nn.Module):
    def __init__(self, cin, cout, stride=1, drop_path=0.0):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.norm1 = nn.GroupNorm(4, cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(4, cout)
        self.drop_path = DropPath(drop_path)
        self.short = None
        if stride != 1 or cin != cout:
            self.short = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.drop_path(self.norm2(self.conv2(y)))
        s = x if self.short is None else self.short(x)
        return F.relu(y + s)


class Encoder(nn.Module):
    def __init__(self, width=8, dim=32):
        super().__init__()
        self.dim = dim
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.GroupNorm(4, width), nn.ReLU())
        self.layer1 = Residual(width, width, drop_path=0.05)
        self.layer2 = Residual(width, 2 * width, stride=2, drop_path=0.1)
        self.proj = nn.Linear(2 * width, dim)

    def forward(self, x):
        x = self.layer2(self.layer1(self.stem(x)))
        return self.proj(x.mean(dim=(2, 3)))


class CosineHead(nn.Module):
    def __init__(self, dim, classes, p=0.2):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, dim) / math.sqrt(dim))
        self.scale = nn.Parameter(torch.tensor(10.0))
        self.drop = nn.Dropout(p)

    def forward(self, z):
        z = F.normalize(self.drop(z), dim=-1)
        return self.scale * z @ F.normalize(self.weight, dim=-1).t()


class LeafNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.head = CosineHead(self.encoder.dim, NUM_CLASSES)

    def forward(self, x):
        return self.head(self.encoder(x))


def make_split(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, NUM_CLASSES, n)
    base = np.random.default_rng(1).normal(size=(NUM_CLASSES, 3, 1, 1))
    x = base[y] + 0.7 * rng.normal(size=(n, 3, 32, 32))
    return torch.from_numpy(x).float(), torch.from_numpy(y)


def batches(split, shuffle=None):
    x, y = split
    order = torch.randperm(len(x), generator=shuffle) if shuffle else torch.arange(len(x))
    for i in range(0, len(x) - BATCH + 1, BATCH):
        idx = order[i:i + BATCH]
        yield x[idx], y[idx]


@torch.no_grad()
def prototype_accuracy(encoder, support, query, device):
    encoder.eval()
    sums = torch.zeros(NUM_CLASSES, encoder.dim, device=device)
    for x, y in batches(support):
        z = F.normalize(encoder(x.to(device)), dim=-1)
        sums += F.one_hot(y.to(device), NUM_CLASSES).float().t() @ z
        torch_xla.sync()
    protos = F.normalize(sums, dim=-1)
    hits, seen = torch.zeros((), device=device), 0
    for x, y in batches(query):
        z = encoder(x.to(device))
        hits += (z @ protos.t()).argmax(-1).eq(y.to(device)).sum()
        seen += len(y)
        torch_xla.sync()
    return hits.item() / seen


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    train, support, query = make_split(96, 0), make_split(48, 2), make_split(32, 3)

    model = LeafNet().to(device)
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    opt = torch.optim.SGD(
        [{"params": decay, "weight_decay": 5e-4}, {"params": rest, "weight_decay": 0.0}],
        lr=0.05, momentum=0.9, nesterov=True)
    total = EPOCHS * (len(train[0]) // BATCH)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=total, cycle_momentum=False)
    shuffle = torch.Generator().manual_seed(0)

    model.train()
    for epoch in range(EPOCHS):
        running = torch.zeros((), device=device)
        for x, y in batches(train, shuffle):
            x, y = x.to(device), y.to(device)
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y, label_smoothing=0.1)
            loss.backward()
            opt.step()
            sched.step()
            running += loss.detach()
            torch_xla.sync()
        acc = prototype_accuracy(model.encoder, support, query, device)
        print(f"epoch {epoch}: loss {running.item() / (len(train[0]) // BATCH):.4f} proto acc {acc:.3f}")


if __name__ == "__main__":
    main()
