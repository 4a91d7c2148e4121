"""Point cloud classification (PointNet style) on synthetic primitives."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SHAPES = ("sphere", "cube", "cylinder", "plane")


def sample_shape(kind, n, rng):
    if kind == "sphere":
        p = rng.normal(size=(n, 3))
        p /= np.linalg.norm(p, axis=1, keepdims=True)
    elif kind == "cube":
        p = rng.uniform(-1, 1, (n, 3))
        ax = rng.integers(0, 3, n)
        p[np.arange(n), ax] = np.sign(p[np.arange(n), ax])
    elif kind == "cylinder":
        a = rng.uniform(0, 2 * np.pi, n)
        p = np.stack([np.cos(a), np.sin(a), rng.uniform(-1, 1, n)], 1)
    else:
        p = rng.uniform(-1, 1, (n, 3))
        p[:, 2] = 0
    return p + rng.normal(0, 0.02, (n, 3))


def make_split(n, n_points, seed):
    rng = np.random.default_rng(seed)
    ys = rng.integers(0, len(SHAPES), n)
    xs = np.stack([sample_shape(SHAPES[y], n_points, rng) for y in ys]).astype(np.float32)
    return torch.from_numpy(xs), torch.from_numpy(ys)


class PointNet(nn.Module):
    def __init__(self, n_cls):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(3, 24, 1), nn.BatchNorm1d(24)
        self.conv2, self.bn2 = nn.Conv1d(24, 48, 1), nn.BatchNorm1d(48)
        self.fc1, self.bn3 = nn.Linear(48, 24), nn.BatchNorm1d(24)
        self.fc2 = nn.Linear(24, n_cls)

    def forward(self, pts):
        x = F.relu(self.bn1(self.conv1(pts.transpose(1, 2))))
        x = F.relu(self.bn2(self.conv2(x)))
        x = x.amax(dim=2)
        return self.fc2(F.relu(self.bn3(self.fc1(x))))


class BNMomentumScheduler:
    def __init__(self, model, init=0.5, decay=0.7, floor=0.01):
        self.model, self.init, self.decay, self.floor = model, init, decay, floor

    def step(self, epoch):
        m = max(self.init * self.decay ** epoch, self.floor)
        for mod in self.model.modules():
            if isinstance(mod, nn.modules.batchnorm._BatchNorm):
                mod.momentum = m
        return m


class Meter:
    def __init__(self):
        self.values = []

    def update(self, v):
        self.values.append(v.detach())

    @property
    def avg(self):
        return torch.stack(self.values).mean()


def augment(x, rng):
    ang = rng.uniform(0, 2 * np.pi, len(x)).astype(np.float32)
    c, s, o, z = np.cos(ang), np.sin(ang), np.ones_like(ang), np.zeros_like(ang)
    rot = np.stack([np.stack([c, -s, z], 1), np.stack([s, c, z], 1), np.stack([z, z, o], 1)], 1)
    return torch.bmm(x, torch.from_numpy(rot))


def main(epochs=9, bs=16, n_points=48, print_freq=4):
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    device = torch_xla.device()
    xs, ys = make_split(bs * 12, n_points, seed=11)
    model = PointNet(len(SHAPES)).to(device).train()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    bn_sched = BNMomentumScheduler(model)
    lr_sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, epochs + 1)
    losses = Meter()
    xm.mark_step()

    step = 0
    for epoch in range(epochs):
        momentum = bn_sched.step(epoch)
        perm = torch.randperm(len(xs))
        for i in range(0, len(xs), bs):
            idx = perm[i:i + bs]
            x, y = augment(xs[idx], rng).to(device), ys[idx].to(device)
            opt.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
            losses.update(loss)
            xm.mark_step()
            step += 1
            if step % print_freq == 0:
                print(f"[{epoch}][{i // bs}] loss {losses.avg.item():.4f} bn {momentum:.3f}", flush=True)
        lr_sched.step()


if __name__ == "__main__":
    main()
