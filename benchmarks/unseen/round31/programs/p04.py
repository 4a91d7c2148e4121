"""Part labels for point clouds: a small PointNet with a per-point head and the usual BN decay."""
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

POINTS = 64
PARTS = 3
BATCH = 6
ITERS = 18

BN_INIT, BN_DECAY, BN_FLOOR = 0.5, 0.5, 0.01
BN_DECAY_ITERS = 10


class Lamps(Dataset):
    """Foot (disc), pole (cylinder) and shade (cone), sampled on the surface."""

    def __init__(self, n):
        rng = np.random.default_rng(2)
        self.items = []
        for _ in range(n):
            part = rng.integers(0, PARTS, POINTS)
            ang = rng.uniform(0, 2 * math.pi, POINTS)
            u = rng.random(POINTS)
            height, foot, shade = rng.uniform(0.8, 1.2), rng.uniform(0.2, 0.4), rng.uniform(0.3, 0.5)
            radius = np.select([part == 0, part == 1], [foot * np.sqrt(u), 0.04], shade * (1 - 0.5 * u))
            z = np.select([part == 0, part == 1], [0.0, height * u], height + 0.3 * u)
            xyz = np.stack([radius * np.cos(ang), radius * np.sin(ang), z], 1)
            xyz += rng.normal(0, 0.01, xyz.shape)
            self.items.append((xyz.astype(np.float32), part.astype(np.int64)))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def point_mlp(*widths):
    layers = []
    for a, b in zip(widths[:-1], widths[1:]):
        layers += [nn.Conv1d(a, b, 1, bias=False), nn.BatchNorm1d(b), nn.ReLU()]
    return nn.Sequential(*layers)


class PointNetSeg(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = point_mlp(3, 16)
        self.wide = point_mlp(16, 32)
        self.head = nn.Sequential(nn.Conv1d(48, 16, 1), nn.ReLU(), nn.Dropout(0.2), nn.Conv1d(16, PARTS, 1))

    def forward(self, xyz):
        f = self.local(xyz.transpose(1, 2))
        g = self.wide(f).amax(dim=2, keepdim=True).expand(-1, -1, xyz.shape[1])
        return self.head(torch.cat([f, g], dim=1))


class BNMomentumScheduler:
    def __init__(self, model, bn_lambda):
        self.norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        self.lmbd = bn_lambda

    def step(self, it):
        value = self.lmbd(it)
        for m in self.norms:
            m.momentum = value
        return value


def augment(xyz, device):
    """Rotation about the axis, a common scale and jitter."""
    scale = random.uniform(0.8, 1.25)
    t = random.uniform(0, 2 * math.pi)
    rot = torch.tensor([[math.cos(t), -math.sin(t), 0.0], [math.sin(t), math.cos(t), 0.0], [0.0, 0.0, 1.0]])
    xyz = xyz @ rot.to(device) * scale
    return xyz + 0.01 * torch.randn_like(xyz).clamp(-3, 3)


def main():
    random.seed(5)
    torch.manual_seed(5)
    device = torch_xla.device()
    model = PointNetSeg().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    lr_sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.2, total_steps=ITERS, cycle_momentum=False)
    bnm_sched = BNMomentumScheduler(model, lambda it: max(BN_INIT * BN_DECAY ** (it / BN_DECAY_ITERS), BN_FLOOR))
    weights = torch.tensor([1.0, 1.4, 1.0], device=device)

    loader = DataLoader(Lamps(60), batch_size=BATCH, shuffle=True, drop_last=True)
    it = 0
    correct = torch.zeros((), device=device)
    while it < ITERS:
        model.train()
        for xyz, part in loader:
            bn_m = bnm_sched.step(it)
            xyz, part = augment(xyz.to(device), device), part.to(device)
            logits = model(xyz)
            loss = F.cross_entropy(logits, part, weight=weights)
            opt.zero_grad()
            loss.backward()
            xm.optimizer_step(opt, barrier=False)
            correct += (logits.argmax(1) == part).float().mean()
            torch_xla.sync()
            lr_sched.step()
            it += 1
            if it % 6 == 0:
                print(f"it {it} loss {loss.item():.3f} acc {correct.item() / 6:.3f} bn {bn_m:.3f}", flush=True)
                correct.zero_()
            if it >= ITERS:
                break


if __name__ == "__main__":
    main()
