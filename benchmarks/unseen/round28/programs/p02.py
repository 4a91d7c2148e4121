# PointNet-style classification of synthetic shapes on an XLA device.
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.distributed.parallel_loader as pl


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--num-points", type=int, default=48)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--lr-decay", type=float, default=0.8)
    p.add_argument("--bn-momentum", type=float, default=0.5)
    p.add_argument("--bn-decay", type=float, default=0.7)
    return p.parse_args()


class Shapes(Dataset):
    """spheres, boxes, cylinders"""

    def __init__(self, n, num_points, seed):
        self.rng = np.random.default_rng(seed)
        self.items = [self._make(i % 3, num_points) for i in range(n)]

    def _make(self, label, k):
        u = self.rng.normal(size=(k, 3))
        if label == 0:
            pts = u / np.linalg.norm(u, axis=1, keepdims=True)
        elif label == 1:
            pts = u / np.abs(u).max(axis=1, keepdims=True)
        else:
            pts = u.copy()
            pts[:, :2] /= np.linalg.norm(u[:, :2], axis=1, keepdims=True)
            pts[:, 2] = np.clip(pts[:, 2], -1, 1)
        pts += 0.02 * self.rng.normal(size=pts.shape)
        return pts.astype(np.float32), label

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        pts, label = self.items[i]
        return torch.from_numpy(pts.T.copy()), label


class PointNetCls(nn.Module):
    def __init__(self, num_classes=3):
        super().__init__()
        self.conv1 = nn.Conv1d(3, 16, 1)
        self.conv2 = nn.Conv1d(16, 32, 1)
        self.bn1 = nn.BatchNorm1d(16)
        self.bn2 = nn.BatchNorm1d(32)
        self.fc1 = nn.Linear(32, 16)
        self.bn3 = nn.BatchNorm1d(16)
        self.fc2 = nn.Linear(16, num_classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = x.max(dim=2).values
        x = F.relu(self.bn3(self.fc1(x)))
        return self.fc2(x)


class BNMomentumScheduler:
    def __init__(self, model, bn_lambda):
        self.model = model
        self.lmbd = bn_lambda
        self.last_epoch = -1
        self.step()

    def step(self, epoch=None):
        if epoch is None:
            epoch = self.last_epoch + 1
        self.last_epoch = epoch
        momentum = self.lmbd(epoch)
        for m in self.model.modules():
            if isinstance(m, nn.BatchNorm1d):
                m.momentum = momentum


def evaluate(model, loader, device):
    model.eval()
    correct = torch.zeros((), dtype=torch.long, device=device)
    seen = 0
    with torch.no_grad():
        for pts, label in loader:
            correct += (model(pts).argmax(1) == label).sum()
            seen += label.shape[0]
    return correct.item() / seen


def main():
    args = get_args()
    torch.manual_seed(0)
    device = torch_xla.device()
    train = DataLoader(Shapes(64, args.num_points, 0), args.batch_size, shuffle=True, drop_last=True)
    test = DataLoader(Shapes(24, args.num_points, 1), args.batch_size)
    train = pl.MpDeviceLoader(train, device)
    test = pl.MpDeviceLoader(test, device)

    model = PointNetCls().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, args.lr_decay)
    bn_lbmd = lambda e: max(args.bn_momentum * math.pow(args.bn_decay, e), 0.01)
    bn_sched = BNMomentumScheduler(model, bn_lbmd)

    for epoch in range(args.epochs):
        model.train()
        total = torch.zeros((), device=device)
        for pts, label in train:
            opt.zero_grad()
            loss = F.cross_entropy(model(pts), label)
            loss.backward()
            opt.step()
            total += loss.detach()
        torch_xla.sync()
        acc = evaluate(model, test, device)
        print(f"[{epoch:02d}] loss {total.item() / len(train):.4f} acc {acc:.3f}")
        sched.step()
        bn_sched.step()


if __name__ == "__main__":
    main()
