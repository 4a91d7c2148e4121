"""Point-cloud shape classification with a small PointNet (PyTorch/XLA)."""
import argparse
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def sample_shape(kind, n, rng):
    if kind == 0:  # sphere
        v = rng.normal(size=(n, 3))
        v /= np.linalg.norm(v, axis=1, keepdims=True)
    elif kind == 1:  # cube surface
        v = rng.uniform(-1, 1, size=(n, 3))
        ax = rng.integers(0, 3, size=n)
        v[np.arange(n), ax] = np.sign(v[np.arange(n), ax])
    elif kind == 2:  # cylinder
        t = rng.uniform(0, 2 * math.pi, size=n)
        v = np.stack([np.cos(t), np.sin(t), rng.uniform(-1, 1, size=n)], axis=1)
    else:  # torus
        t, p = rng.uniform(0, 2 * math.pi, size=(2, n))
        r = 0.7 + 0.3 * np.cos(p)
        v = np.stack([r * np.cos(t), r * np.sin(t), 0.3 * np.sin(p)], axis=1)
    return v.astype(np.float32)


class ShapeDataset(torch.utils.data.Dataset):
    def __init__(self, length, n_points, seed):
        self.length, self.n_points, self.seed = length, n_points, seed

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 100003 + i)
        label = i % 4
        pts = sample_shape(label, self.n_points, rng)
        theta = rng.uniform(0, 2 * math.pi)
        c, s = math.cos(theta), math.sin(theta)
        rot = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]], dtype=np.float32)
        pts = pts @ rot + rng.normal(scale=0.02, size=pts.shape).astype(np.float32)
        return torch.from_numpy(pts.T.copy()), label


class SharedMLP(nn.Sequential):
    def __init__(self, dims):
        layers = []
        for i, o in zip(dims[:-1], dims[1:]):
            layers += [nn.Conv1d(i, o, 1, bias=False), nn.BatchNorm1d(o), nn.ReLU(inplace=True)]
        super().__init__(*layers)


class PointNet(nn.Module):
    def __init__(self, num_classes=4):
        super().__init__()
        self.local = SharedMLP([3, 32])
        self.glob = SharedMLP([32, 64])
        self.fc1 = nn.Linear(64, 32)
        self.bn = nn.BatchNorm1d(32)
        self.fc2 = nn.Linear(32, num_classes)

    def forward(self, x):
        x = self.glob(self.local(x)).amax(dim=2)
        x = F.relu(self.bn(self.fc1(x)))
        return self.fc2(x)


class BNMomentumScheduler:
    """Decays BatchNorm momentum so that running statistics settle with the learning rate."""

    def __init__(self, model, bn_lambda):
        self.mods = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        self.bn_lambda = bn_lambda
        self.it = -1
        self.step()

    def step(self):
        self.it += 1
        momentum = self.bn_lambda(self.it)
        for m in self.mods:
            m.momentum = momentum


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=17)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--points", type=int, default=64)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--lr-decay", type=float, default=0.7)
    ap.add_argument("--bn-decay", type=float, default=0.5)
    ap.add_argument("--decay-steps", type=float, default=20.0)
    args = ap.parse_args()

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    device = torch_xla.device()

    ds = ShapeDataset(args.steps * args.batch_size, args.points, seed=1)
    gen = torch.Generator().manual_seed(3)
    loader = torch.utils.data.DataLoader(ds, args.batch_size, shuffle=True, drop_last=True, generator=gen)

    model = PointNet().to(device).train()
    opt = torch.optim.Adam(model.parameters(), lr=args.lr, weight_decay=1e-4)
    lr_sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda it: max(args.lr_decay ** (it / args.decay_steps), 0.01))
    bn_sched = BNMomentumScheduler(
        model, lambda it: max(0.1 * args.bn_decay ** (it / args.decay_steps), 0.01))

    for step, (pts, label) in enumerate(loader):
        pts, label = pts.to(device), label.to(device)
        logits = model(pts)
        loss = F.cross_entropy(logits, label, label_smoothing=0.1)
        opt.zero_grad()
        loss.backward()
        opt.step()
        lr_sched.step()
        bn_sched.step()
        acc = (logits.argmax(1) == label).float().mean()
        torch_xla.sync()
        if step % 5 == 0:
            print(f"step {step:3d} loss {loss.item():.4f} acc {acc.item():.3f} "
                  f"lr {lr_sched.get_last_lr()[0]:.5f}")
    xm.wait_device_ops()


if __name__ == "__main__":
    main()
