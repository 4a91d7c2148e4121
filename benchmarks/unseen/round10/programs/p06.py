"""PointNet classifier on synthetic shapes, with the decay schedules of PointNet++."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.optim.lr_scheduler import LambdaLR

SHAPES = ["sphere", "cube", "plane", "line"]


def sample_shape(kind, n, g):
    if kind == "sphere":
        return F.normalize(torch.randn(n, 3, generator=g), dim=-1)
    pts = torch.rand(n, 3, generator=g) * 2 - 1
    if kind == "cube":
        face = torch.randint(0, 3, (n,), generator=g)
        pts[torch.arange(n), face] = pts[torch.arange(n), face].sign()
    elif kind == "plane":
        pts[:, 2] = 0.0
    else:
        pts[:, 1:] = 0.0
    return pts


def rotate_z(pts, g):
    a = float(torch.rand(1, generator=g)) * 2 * math.pi
    rot = torch.tensor([[math.cos(a), -math.sin(a), 0], [math.sin(a), math.cos(a), 0], [0, 0, 1.0]])
    return pts @ rot


def make_batch(size, n_points, g):
    y = torch.randint(0, len(SHAPES), (size,), generator=g)
    clouds = [rotate_z(sample_shape(SHAPES[int(k)], n_points, g), g) for k in y]
    return torch.stack(clouds) + 0.02 * torch.randn(size, n_points, 3, generator=g), y


class SharedMLP(nn.Sequential):
    def __init__(self, *dims):
        super().__init__()
        for i, (a, b) in enumerate(zip(dims[:-1], dims[1:])):
            self.add_module(f"conv{i}", nn.Conv1d(a, b, 1, bias=False))
            self.add_module(f"bn{i}", nn.BatchNorm1d(b))
            self.add_module(f"relu{i}", nn.ReLU(inplace=True))


class PointNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.local = SharedMLP(3, 24)
        self.deep = SharedMLP(24, 48, 64)
        self.head = nn.Sequential(
            nn.Linear(64, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, classes)
        )

    def forward(self, pts):
        x = self.local(pts.transpose(1, 2).contiguous())
        return self.head(self.deep(x).amax(dim=-1))


class BNMomentumScheduler:
    def __init__(self, model, bn_lambda):
        self.model, self.bn_lambda, self.last = model, bn_lambda, -1
        self.step()

    def step(self):
        self.last += 1
        momentum = self.bn_lambda(self.last)
        for m in self.model.modules():
            if isinstance(m, nn.modules.batchnorm._BatchNorm):
                m.momentum = momentum

    @property
    def value(self):
        return self.bn_lambda(self.last)


def train(steps=11, batch=16, n_points=64):
    g = torch.Generator().manual_seed(5)
    torch.manual_seed(5)
    dev = torch_xla.device()
    net = PointNet(len(SHAPES)).to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    lr_sched = LambdaLR(opt, lambda it: max(0.95 ** it, 0.05))
    bn_sched = BNMomentumScheduler(net, lambda it: max(0.5 * 0.93 ** it, 0.01))
    net.train()
    for it in range(steps):
        pts, y = make_batch(batch, n_points, g)
        pts, y = pts.to(dev), y.to(dev)
        opt.zero_grad(set_to_none=True)
        logits = net(pts)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        opt.step()
        lr_sched.step()
        bn_sched.step()
        acc = (logits.argmax(-1) == y).float().mean()
        torch_xla.sync()
        if it % 5 == 0:
            print(f"it {it:2d} loss {loss.item():.3f} acc {acc.item():.2f} bn {bn_sched.value:.3f}")
    net.eval()
    pts, y = make_batch(64, n_points, g)
    with torch.no_grad():
        pred = net(pts.to(dev)).argmax(-1)
    torch_xla.sync()
    print("test acc", (pred.cpu() == y).float().mean().item())


if __name__ == "__main__":
    train()
