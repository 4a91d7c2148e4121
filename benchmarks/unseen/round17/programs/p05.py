# Point-set classifier for scanned castings (four part families).
# Schedules follow the recipe of the original point network paper.

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

NUM_POINTS = 48
BATCH = 16
EPOCHS = 2


class Castings(Dataset):
    """Noisy surfaces of a sphere, a box, a cylinder and a ring."""

    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 100003 + i)
        kind = i % 4
        u = rng.normal(size=(NUM_POINTS, 3))
        if kind == 0:
            p = u / np.linalg.norm(u, axis=1, keepdims=True)
        elif kind == 1:
            p = u / np.abs(u).max(1, keepdims=True)
        elif kind == 2:
            p = np.concatenate([u[:, :2] / np.linalg.norm(u[:, :2], axis=1, keepdims=True), u[:, 2:]], 1)
        else:
            t = rng.uniform(0, 2 * np.pi, NUM_POINTS)
            p = np.stack([np.cos(t), np.sin(t), 0.1 * u[:, 2]], 1)
        a = rng.uniform(0, 2 * np.pi)
        rot = np.array([[np.cos(a), -np.sin(a), 0], [np.sin(a), np.cos(a), 0], [0, 0, 1]])
        return torch.tensor(p @ rot.T + 0.02 * u, dtype=torch.float32).t(), kind


def block(i, o):
    return nn.Sequential(nn.Conv1d(i, o, 1, bias=False), nn.BatchNorm1d(o), nn.ReLU())


class PointClassifier(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.local = nn.Sequential(block(3, 16))
        self.wide = block(16, 32)
        self.fc = nn.Sequential(nn.Linear(32, 24), nn.ReLU(),
                                nn.Dropout(0.2), nn.Linear(24, classes))

    def forward(self, p):
        return self.fc(self.wide(self.local(p)).amax(-1))


class NormMomentum:
    """Lowers the momentum of all normalisation layers during training."""

    def __init__(self, model, start=0.5, rate=0.9, floor=0.01):
        self.layers = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        self.start, self.rate, self.floor = start, rate, floor
        self.t = 0
        self.apply()

    def apply(self):
        value = max(self.start * self.rate ** self.t, self.floor)
        for m in self.layers:
            m.momentum = value

    def step(self):
        self.t += 1
        self.apply()


class Trainer:
    def __init__(self, device):
        self.device = device
        self.model = PointClassifier().to(device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=4e-3)
        self.lr = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.985)
        self.norm = NormMomentum(self.model)
        self.seen = 0

    def train_epoch(self, loader):
        self.model.train()
        total = torch.zeros((), device=self.device)
        count = 0
        for points, kind in loader:
            self.opt.zero_grad()
            loss = F.cross_entropy(self.model(points), kind)
            loss.backward()
            self.opt.step()
            total += loss.detach()
            count += 1
            self.lr.step()
            self.norm.step()
        return total.item() / count

    @torch.no_grad()
    def accuracy(self, loader):
        self.model.eval()
        right = torch.zeros((), device=self.device)
        n = 0
        for points, kind in loader:
            right += (self.model(points).argmax(-1) == kind).sum()
            n += kind.numel()
        return right.item() / n


def main():
    torch.manual_seed(17)
    device = torch_xla.device()
    train = DataLoader(Castings(BATCH * 14, 1), batch_size=BATCH, shuffle=True, drop_last=True)
    test = DataLoader(Castings(BATCH * 3, 2), batch_size=BATCH)
    trainer = Trainer(device)
    for epoch in range(EPOCHS):
        mean = trainer.train_epoch(pl.MpDeviceLoader(train, device))
        acc = trainer.accuracy(pl.MpDeviceLoader(test, device))
        print(f"epoch {epoch}: loss {mean:.4f}  test acc {acc:.3f}")


if __name__ == "__main__":
    main()
