"""CIFAR-like image classification, residual network with stochastic depth."""
import argparse
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class ResidualUnit(nn.Module):
    def __init__(self, channels, survival):
        super().__init__()
        self.survival = survival
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(4, channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(4, channels)

    def branch(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        return self.norm2(self.conv2(x))

    def forward(self, x):
        if self.training:
            if random.random() > self.survival:
                return x
            return F.relu(x + self.branch(x))
        return F.relu(x + self.survival * self.branch(x))


class DeepResNet(nn.Module):
    def __init__(self, depth=5, channels=16, num_classes=10, final_survival=0.6):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 3, stride=2, padding=1), nn.ReLU())
        units = []
        for i in range(depth):
            survival = 1.0 - (i + 1) / depth * (1.0 - final_survival)
            units.append(ResidualUnit(channels, survival))
        self.units = nn.ModuleList(units)
        self.fc = nn.Linear(channels, num_classes)

    def forward(self, x):
        x = self.stem(x)
        for unit in self.units:
            x = unit(x)
        return self.fc(x.mean(dim=(2, 3)))


class RandomImages:
    """Class-conditional noise, stands in for CIFAR-10 on the dev box."""

    def __init__(self, batches, batch_size, seed):
        g = torch.Generator().manual_seed(seed)
        self.proto = torch.randn(10, 3, 16, 16, generator=g)
        self.y = torch.randint(0, 10, (batches, batch_size), generator=g)
        self.noise = torch.randn(batches, batch_size, 3, 16, 16, generator=g)

    def __iter__(self):
        for y, n in zip(self.y, self.noise):
            yield self.proto[y] + 0.7 * n, y


def accuracy(model, data, device):
    model.eval()
    hits, seen = 0, 0
    with torch.no_grad():
        for x, y in data:
            pred = model(x.to(device)).argmax(-1)
            torch_xla.sync()
            hits += (pred.cpu() == y).sum().item()
            seen += len(y)
    model.train()
    return hits / seen


def run(args):
    torch.manual_seed(args.seed)
    random.seed(args.seed)
    device = torch_xla.device()
    model = DeepResNet(depth=args.depth).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs * args.batches)
    train = RandomImages(args.batches, args.batch_size, 0)
    test = RandomImages(2, args.batch_size, 0)
    for epoch in range(args.epochs):
        for i, (x, y) in enumerate(train):
            x, y = x.to(device), y.to(device)
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            sched.step()
            torch_xla.sync()
            if i % 4 == 0:
                print(f"[{epoch}/{i}] loss {loss.item():.3f} lr {sched.get_last_lr()[0]:.4f}")
        print(f"epoch {epoch}: acc {accuracy(model, test, device):.3f}")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--depth", type=int, default=5)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batches", type=int, default=8)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--seed", type=int, default=1)
    run(p.parse_args())
