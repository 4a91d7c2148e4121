"""Roadside lidar object classification with a small PointNet."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

CLASSES = ("car", "cyclist", "pedestrian", "pole", "sign")
N_POINTS = 64
BATCH = 12
STEPS = 40
BASE_LR = 2e-3
BN_INIT, BN_DECAY, BN_FLOOR = 0.5, 0.8, 0.02


class LidarClusters(Dataset):
    SIZES = np.array([[4.2, 1.8, 1.5], [1.7, 0.6, 1.7], [0.5, 0.5, 1.7], [0.2, 0.2, 4.0], [0.1, 0.9, 0.9]])

    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, i))
        y = int(rng.integers(len(CLASSES)))
        raw = rng.uniform(-0.5, 0.5, size=(int(rng.integers(30, 200)), 3)) * self.SIZES[y]
        yaw = rng.uniform(0, 2 * math.pi)
        c, s = math.cos(yaw), math.sin(yaw)
        raw = raw @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]).T
        raw += rng.normal(0, 0.02, raw.shape)
        pick = rng.choice(len(raw), N_POINTS, replace=len(raw) < N_POINTS)
        return raw[pick].astype(np.float32), y


def collate(rows):
    xyz = torch.from_numpy(np.stack([r[0] for r in rows])).transpose(1, 2).contiguous()
    return xyz, torch.tensor([r[1] for r in rows])


class SharedMLP(nn.Sequential):
    def __init__(self, dims):
        layers = []
        for a, b in zip(dims[:-1], dims[1:]):
            layers += [nn.Conv1d(a, b, 1, bias=False), nn.BatchNorm1d(b), nn.ReLU()]
        super().__init__(*layers)


class PointNet(nn.Module):
    def __init__(self, n_classes, width=24):
        super().__init__()
        self.local = SharedMLP([3, width // 2, width])
        self.globl = SharedMLP([2 * width, width, 2 * width])
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, n_classes))

    def forward(self, xyz):
        f = self.local(xyz)
        g = f.amax(-1, keepdim=True).expand_as(f)
        h = self.globl(torch.cat([f, g], dim=1)).amax(-1)
        return self.head(h)


class BNMomentum:
    """Keeps the running statistics lively early on and steady later."""

    def __init__(self, model, init, decay, floor):
        self.layers = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        self.init, self.decay, self.floor = init, decay, floor
        self.t = 0
        self.apply()

    def value(self):
        return max(self.init * self.decay ** self.t, self.floor)

    def apply(self):
        for m in self.layers:
            m.momentum = self.value()

    def step(self):
        self.t += 1
        self.apply()


def warm_cosine(step, warm=6):
    if step < warm:
        return (step + 0.5) / warm
    return 0.05 + 0.45 * (1 + math.cos(math.pi * (step - warm) / (STEPS - warm)))


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right, seen = 0, 0
    for xyz, y in loader:
        right += (model(xyz).argmax(-1) == y).sum().item()
        seen += y.numel()
    model.train()
    return right / seen


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    train_dl = DataLoader(LidarClusters(BATCH * STEPS, 1), BATCH, shuffle=True, drop_last=True, collate_fn=collate)
    test_dl = DataLoader(LidarClusters(BATCH * 4, 2), BATCH, drop_last=True, collate_fn=collate)
    model = PointNet(len(CLASSES)).to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=BASE_LR)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, warm_cosine)
    bn_sched = BNMomentum(model, BN_INIT, BN_DECAY, BN_FLOOR)

    for step, (xyz, y) in enumerate(pl.MpDeviceLoader(train_dl, device)):
        opt.zero_grad()
        loss = F.cross_entropy(model(xyz), y, label_smoothing=0.05)
        loss.backward()
        xm.optimizer_step(opt)
        sched.step()
        bn_sched.step()
        if (step + 1) % 20 == 0:
            xm.add_step_closure(lambda l, s: print(f"step {s}  loss {l.item():.4f}"), args=(loss.detach(), step + 1))
    print(f"test accuracy {accuracy(model, pl.MpDeviceLoader(test_dl, device)):.3f}")


if __name__ == "__main__":
    main()
