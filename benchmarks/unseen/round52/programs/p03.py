"""PointNet classifier on synthetic solids (sphere / box / cylinder / cone).

Follows the original recipe: input transform net with an orthogonality penalty,
shared MLPs with batch norm, exponential schedules for the learning rate and
for the batch norm momentum.
"""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

NUM_POINTS = 64
BATCH = 12
MAX_STEPS = 20
BASE_LR = 2e-2
LR_DECAY_STEPS = 30
BN_INIT_DECAY = 0.5
BN_DECAY_RATE = 0.5
BN_DECAY_STEPS = 12
BN_DECAY_CLIP = 0.99
CLASSES = ("sphere", "box", "cylinder", "cone")


def sample_solid(kind, n, rng):
    if kind == 0:
        p = rng.normal(size=(n, 3))
        p /= np.linalg.norm(p, axis=1, keepdims=True)
    elif kind == 1:
        p = rng.uniform(-1, 1, size=(n, 3))
        axis = rng.integers(0, 3, size=n)
        p[np.arange(n), axis] = np.sign(p[np.arange(n), axis])
    else:
        t = rng.uniform(0, 2 * math.pi, size=n)
        z = rng.uniform(-1, 1, size=n)
        r = np.ones(n) if kind == 2 else (1 - z) / 2
        p = np.stack([r * np.cos(t), r * np.sin(t), z], axis=1)
    return p


def make_batch(rng):
    labels = rng.integers(0, len(CLASSES), size=BATCH)
    pts = np.stack([sample_solid(k, NUM_POINTS, rng) for k in labels])
    theta = rng.uniform(0, 2 * math.pi, size=BATCH)
    c, s = np.cos(theta), np.sin(theta)
    rot = np.zeros((BATCH, 3, 3))
    rot[:, 0, 0], rot[:, 0, 1], rot[:, 1, 0], rot[:, 1, 1], rot[:, 2, 2] = c, -s, s, c, 1
    pts = pts @ rot + np.clip(rng.normal(scale=0.02, size=pts.shape), -0.05, 0.05)
    return torch.from_numpy(pts.astype(np.float32)).transpose(1, 2), torch.from_numpy(labels)


def shared_mlp(*widths):
    layers = []
    for a, b in zip(widths[:-1], widths[1:]):
        layers += [nn.Conv1d(a, b, 1, bias=False), nn.BatchNorm1d(b), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers)


class TransformNet(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.k = k
        self.features = shared_mlp(k, 24)
        self.fc = nn.Linear(24, k * k)
        nn.init.zeros_(self.fc.weight)
        self.fc.bias.data.copy_(torch.eye(k).flatten())

    def forward(self, x):
        pooled = self.features(x).amax(dim=2)
        return self.fc(pooled).view(-1, self.k, self.k)


class PointNet(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.align = TransformNet(3)
        self.local = shared_mlp(3, 24, 48)
        self.head = nn.Sequential(
            nn.Linear(48, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3),
            nn.Linear(32, num_classes),
        )

    def forward(self, x):
        T = self.align(x)
        x = torch.bmm(T, x)
        x = self.local(x).amax(dim=2)
        return self.head(x), T


def orthogonality(T):
    eye = torch.eye(T.shape[-1], device=T.device)
    return (torch.bmm(T, T.transpose(1, 2)) - eye).square().sum((1, 2)).mean()


def get_bn_momentum(step):
    decay = BN_INIT_DECAY * BN_DECAY_RATE ** (step / BN_DECAY_STEPS)
    return 1.0 - min(BN_DECAY_CLIP, 1.0 - decay)


class Schedules:
    def __init__(self, model, optimizer):
        self.norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm1d)]
        self.optimizer = optimizer

    def apply(self, step):
        lr = max(BASE_LR * 0.7 ** (step / LR_DECAY_STEPS), 1e-5)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        momentum = get_bn_momentum(step)
        for bn in self.norms:
            bn.momentum = momentum
        return lr


def train():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    device = torch_xla.device()
    model = PointNet(len(CLASSES)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=BASE_LR, momentum=0.9)
    schedules = Schedules(model, optimizer)

    model.train()
    hits, seen = 0, 0
    for step in range(MAX_STEPS):
        lr = schedules.apply(step)
        pts, labels = make_batch(rng)
        pts, labels = pts.to(device), labels.to(device)
        logits, T = model(pts)
        loss = F.cross_entropy(logits, labels) + 1e-3 * orthogonality(T)
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        correct = (logits.argmax(1) == labels).sum()
        xm.mark_step()

        if step % 5 == 4:
            hits += correct.item()
            seen += BATCH
            print(f"[{step + 1:03d}] lr {lr:.5f} loss {loss.item():.4f} acc {hits / seen:.3f}")


if __name__ == "__main__":
    train()
