"""PointNet-style shape classifier with the usual decayed learning rate and norm momentum."""
import logging
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("pointnet")


@dataclass
class Config:
    seed: int = 5
    points: int = 24
    classes: int = 3
    batch_size: int = 8
    epochs: int = 6
    steps_per_epoch: int = 5
    lr: float = 2e-2
    lr_gamma: float = 0.9
    bn_momentum: float = 0.5
    bn_decay: float = 0.7
    bn_floor: float = 0.01


class Shapes(Dataset):
    """Cylinders, cones and spheres."""

    def __init__(self, n, points, seed):
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.arange(n) % 3
        angle = torch.rand(n, points, generator=g) * 2 * math.pi
        height = torch.rand(n, points, generator=g) * 2 - 1
        radius = torch.ones(n, points)
        radius[self.labels == 1] = (1 - height[self.labels == 1].abs())
        radius[self.labels == 2] = torch.sqrt(1 - height[self.labels == 2] ** 2)
        self.cloud = torch.stack([radius * angle.cos(), radius * angle.sin(), height], 1)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.cloud[i], self.labels[i]


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
    return nn.Sequential(*layers)


class PointNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.local = mlp(3, 16, 32)
        self.head = nn.Linear(32, classes)

    def forward(self, cloud):
        return self.head(self.local(cloud).amax(-1))


class NormMomentum:
    """Sets every batch norm's momentum from the epoch, as in the reference code."""

    def __init__(self, model, start, decay, floor):
        self.norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm1d)]
        self.start, self.decay, self.floor = start, decay, floor

    def step(self, epoch):
        value = max(self.start * self.decay ** epoch, self.floor)
        for norm in self.norms:
            norm.momentum = value
        return value


@torch.no_grad()
def accuracy(model, batch, device):
    model.eval()
    cloud, label = batch
    hit = (model(cloud.to(device)).argmax(-1) == label.to(device)).float().mean()
    torch_xla.sync()
    model.train()
    return hit.item()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = xm.xla_device()
    data = Shapes(cfg.batch_size * cfg.steps_per_epoch, cfg.points, cfg.seed)
    held_out = next(iter(DataLoader(Shapes(24, cfg.points, cfg.seed + 1), batch_size=24)))
    loader = pl.MpDeviceLoader(DataLoader(data, batch_size=cfg.batch_size, shuffle=True, drop_last=True), device)
    model = PointNet(cfg.classes).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr)
    lr_sched = torch.optim.lr_scheduler.ExponentialLR(opt, cfg.lr_gamma)
    bn_sched = NormMomentum(model, cfg.bn_momentum, cfg.bn_decay, cfg.bn_floor)
    for epoch in range(cfg.epochs):
        momentum = bn_sched.step(epoch)
        for cloud, label in loader:
            opt.zero_grad()
            loss = F.cross_entropy(model(cloud), label)
            loss.backward()
            opt.step()
        lr_sched.step()
        acc = accuracy(model, held_out, device)
        log.info("epoch %d momentum %.3f loss %.4f acc %.3f", epoch, momentum, loss.item(), acc)


if __name__ == "__main__":
    main()
