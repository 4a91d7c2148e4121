"""Point cloud classification, PointNet-style, on synthetic primitives."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


class Primitives(Dataset):
    """Noisy spheres, boxes, cylinders and planes."""

    NAMES = ("sphere", "box", "cylinder", "plane")

    def __init__(self, n, points, seed=0):
        self.rng = np.random.RandomState(seed)
        self.items = [self._make(i % 4, points) for i in range(n)]

    def _make(self, kind, p):
        r = self.rng
        if kind == 0:
            x = r.randn(p, 3)
            x /= np.linalg.norm(x, axis=1, keepdims=True)
        elif kind == 1:
            x = r.uniform(-1, 1, (p, 3))
            ax = r.randint(0, 3, p)
            x[np.arange(p), ax] = np.sign(x[np.arange(p), ax])
        elif kind == 2:
            t = r.uniform(0, 2 * math.pi, p)
            x = np.stack([np.cos(t), np.sin(t), r.uniform(-1, 1, p)], 1)
        else:
            x = np.concatenate([r.uniform(-1, 1, (p, 2)), np.zeros((p, 1))], 1)
        x += 0.02 * r.randn(p, 3)
        return torch.tensor(x.T, dtype=torch.float32), kind

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class TNet(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
        self.conv = nn.Conv1d(k, 24, 1)
        self.bn = nn.BatchNorm1d(24)
        self.fc = nn.Linear(24, k * k)
        nn.init.zeros_(self.fc.weight)
        self.fc.bias.data.copy_(torch.eye(k).flatten())

    def forward(self, x):
        h = F.relu(self.bn(self.conv(x))).amax(2)
        return self.fc(h).view(-1, self.k, self.k)


class PointNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.tnet = TNet(3)
        self.conv1 = nn.Conv1d(3, 24, 1)
        self.bn1 = nn.BatchNorm1d(24)
        self.conv2 = nn.Conv1d(24, 48, 1)
        self.bn2 = nn.BatchNorm1d(48)
        self.head = nn.Sequential(nn.Linear(48, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, classes))

    def forward(self, x):
        t = self.tnet(x)
        x = torch.bmm(t, x)
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return self.head(x.amax(2)), t


class BNMomentumScheduler:
    def __init__(self, model, fn):
        self.model = model
        self.fn = fn
        self.last = -1
        self.step()

    def step(self):
        self.last += 1
        m = self.fn(self.last)
        for mod in self.model.modules():
            if isinstance(mod, nn.modules.batchnorm._BatchNorm):
                mod.momentum = m


def criterion(logits, t, y, w=1e-3):
    eye = torch.eye(3, device=t.device)
    reg = ((t @ t.transpose(1, 2) - eye) ** 2).sum((1, 2)).mean()
    return F.cross_entropy(logits, y) + w * reg


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--bn-init", type=float, default=0.5)
    ap.add_argument("--bn-decay", type=float, default=0.5)
    ap.add_argument("--lr", type=float, default=2e-2)
    args = ap.parse_args([])

    torch.manual_seed(3)
    device = torch_xla.device()
    model = PointNet(len(Primitives.NAMES)).to(device).train()
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    bn_sched = BNMomentumScheduler(model, lambda e: max(args.bn_init * args.bn_decay ** e, 0.01))
    lr_sched = torch.optim.lr_scheduler.StepLR(opt, 1, gamma=0.7)

    loader = DataLoader(Primitives(32, 40), batch_size=8, shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)
    for epoch in range(args.epochs):
        total = torch.zeros((), device=device)
        for cloud, label in loader:
            opt.zero_grad()
            logits, t = model(cloud)
            loss = criterion(logits, t, label)
            loss.backward()
            xm.optimizer_step(opt)
            total += loss.detach()
        xm.mark_step()
        lr_sched.step()
        bn_sched.step()
        print(f"epoch {epoch} loss {total.item() / 4:.4f}", flush=True)


if __name__ == "__main__":
    main()
