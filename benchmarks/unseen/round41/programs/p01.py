"""PointNet-style shape classification on synthetic point clouds (PyTorch/XLA)."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SHAPES = ("sphere", "box", "cylinder", "torus")
NUM_POINTS = 64
BATCH_SIZE = 16
STEPS_PER_EPOCH = 4
EPOCHS = 10


def sample_shape(rng, kind):
    u = rng.uniform(0, 2 * math.pi, NUM_POINTS)
    v = rng.uniform(-1, 1, NUM_POINTS)
    if kind == 0:
        r = np.sqrt(1 - v ** 2)
        pts = np.stack([r * np.cos(u), r * np.sin(u), v], 1)
    elif kind == 1:
        pts = rng.uniform(-1, 1, (NUM_POINTS, 3))
        face = rng.integers(0, 3, NUM_POINTS)
        pts[np.arange(NUM_POINTS), face] = np.sign(v)
    elif kind == 2:
        pts = np.stack([0.6 * np.cos(u), 0.6 * np.sin(u), v], 1)
    else:
        w = v * math.pi
        r = 0.8 + 0.25 * np.cos(w)
        pts = np.stack([r * np.cos(u), r * np.sin(u), 0.25 * np.sin(w)], 1)
    theta = rng.uniform(0, 2 * math.pi)
    c, s = math.cos(theta), math.sin(theta)
    rot = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    return pts @ rot.T + rng.normal(0, 0.02, pts.shape)


class PointClouds:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def batch(self):
        y = self.rng.integers(0, len(SHAPES), BATCH_SIZE)
        x = np.stack([sample_shape(self.rng, k) for k in y])
        x = torch.from_numpy(x).float().transpose(1, 2).contiguous()
        return x, torch.from_numpy(y)


class PointNet(nn.Module):
    def __init__(self, num_classes=len(SHAPES), width=24):
        super().__init__()
        self.local = nn.Sequential(
            nn.Conv1d(3, width, 1), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Conv1d(width, 2 * width, 1), nn.BatchNorm1d(2 * width), nn.ReLU(),
        )
        self.head = nn.Sequential(
            nn.Linear(2 * width, width), nn.ReLU(), nn.Dropout(0.3),
            nn.Linear(width, num_classes),
        )

    def forward(self, x):
        x = self.local(x)
        x = x.amax(dim=2)
        return self.head(x)


def set_bn_momentum(momentum):
    def fn(m):
        if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d)):
            m.momentum = momentum
    return fn


class BNMomentumScheduler:
    def __init__(self, model, bn_lambda, last_epoch=-1):
        self.model = model
        self.lmbd = bn_lambda
        self.last_epoch = last_epoch
        self.step(last_epoch + 1)

    def step(self, epoch=None):
        if epoch is None:
            epoch = self.last_epoch + 1
        self.last_epoch = epoch
        self.model.apply(set_bn_momentum(self.lmbd(epoch)))


def train_one_epoch(model, data, optimizer, device):
    model.train()
    for _ in range(STEPS_PER_EPOCH):
        x, y = data.batch()
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    return loss


@torch.no_grad()
def evaluate(model, data, device, batches=2):
    model.eval()
    correct = torch.zeros((), device=device)
    for _ in range(batches):
        x, y = data.batch()
        pred = model(x.to(device)).argmax(1)
        correct += (pred == y.to(device)).sum()
        torch_xla.sync()
    return correct.item() / (batches * BATCH_SIZE)


def main():
    torch.manual_seed(7)
    device = torch_xla.device()
    xm.set_rng_state(7, device)
    train_data, val_data = PointClouds(1), PointClouds(2)

    model = PointNet().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    lr_sched = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.93)
    bn_sched = BNMomentumScheduler(model, lambda e: max(0.5 * 0.85 ** e, 0.01))

    for epoch in range(EPOCHS):
        loss = train_one_epoch(model, train_data, optimizer, device)
        acc = evaluate(model, val_data, device)
        lr_sched.step()
        bn_sched.step()
        print(f"epoch {epoch:2d}  loss {loss.item():.4f}  val acc {acc:.3f}")


if __name__ == "__main__":
    main()
