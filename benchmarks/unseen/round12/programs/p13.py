# Point-cloud classification, PointNet style (per-point MLP, max pool, head).
import math
from dataclasses import dataclass

import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Options:
    num_points: int = 64
    num_classes: int = 4
    batch: int = 16
    iters: int = 12
    lr: float = 1e-3
    lr_decay: float = 0.9
    bn_init: float = 0.5
    bn_decay: float = 0.85
    bn_floor: float = 0.01
    report: int = 4


class SharedMLP(nn.Sequential):
    def __init__(self, *widths):
        mods = []
        for a, b in zip(widths[:-1], widths[1:]):
            mods += [nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU()]
        super().__init__(*mods)


class PointNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.local = SharedMLP(3, 16, 32)
        self.globl = SharedMLP(32, 32, 64)
        self.head = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(),
                                  nn.Dropout(0.3), nn.Linear(32, classes))

    def forward(self, xyz):
        feat = self.globl(self.local(xyz))
        return self.head(feat.amax(dim=2))


class BNMomentumScheduler:
    """Same interface as a torch LR scheduler, for the batch-norm momentum."""

    def __init__(self, model, fn, last_step=-1):
        self.layers = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        self.fn = fn
        self.step(last_step + 1)
        self.last_step = last_step

    def step(self, n=None):
        n = self.last_step + 1 if n is None else n
        self.last_step = n
        for m in self.layers:
            m.momentum = self.fn(n)


def sample_shapes(n, points, gen):
    label = torch.randint(0, 4, (n,), generator=gen)
    u = torch.rand(n, points, generator=gen) * 2 * math.pi
    v = torch.rand(n, points, generator=gen) * 2 - 1
    ring = torch.stack([u.cos(), u.sin(), torch.zeros_like(u)], 1)
    tube = torch.stack([u.cos(), u.sin(), v], 1)
    ball = torch.stack([(1 - v ** 2).sqrt() * u.cos(), (1 - v ** 2).sqrt() * u.sin(), v], 1)
    plane = torch.stack([u / math.pi - 1, v, torch.zeros_like(u)], 1)
    bank = torch.stack([ring, tube, ball, plane], 1)
    xyz = bank[torch.arange(n), label]
    return xyz + 0.02 * torch.randn(xyz.shape, generator=gen), label


def rotate_z(xyz, gen):
    a = torch.rand(xyz.shape[0], generator=gen) * 2 * math.pi
    c, s, o = a.cos(), a.sin(), torch.zeros_like(a)
    rot = torch.stack([c, -s, o, s, c, o, o, o, o + 1], 1).view(-1, 3, 3)
    return rot @ xyz


@torch.no_grad()
def evaluate(net, xyz, label):
    net.eval()
    acc = (net(xyz).argmax(1) == label).float().mean()
    xm.mark_step()
    net.train()
    return acc.item()


def train(opt):
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(3)
    dev = torch_xla.device()
    net = PointNet(opt.num_classes).to(dev)
    optim = torch.optim.Adam(net.parameters(), lr=opt.lr)
    lr_sched = torch.optim.lr_scheduler.LambdaLR(optim, lambda it: max(opt.lr_decay ** (it / 4), 1e-2))
    bn_sched = BNMomentumScheduler(
        net, lambda it: max(opt.bn_init * opt.bn_decay ** it, opt.bn_floor))
    held_xyz, held_y = (t.to(dev) for t in sample_shapes(32, opt.num_points, gen))
    xm.mark_step()

    for it in range(opt.iters):
        xyz, y = sample_shapes(opt.batch, opt.num_points, gen)
        xyz, y = rotate_z(xyz, gen).to(dev), y.to(dev)
        loss = F.cross_entropy(net(xyz), y, label_smoothing=0.1)
        optim.zero_grad()
        loss.backward()
        optim.step()
        lr_sched.step()
        bn_sched.step()
        xm.mark_step()
        if (it + 1) % opt.report == 0:
            print(f"iter {it + 1:3d} loss {loss.item():.4f} val acc {evaluate(net, held_xyz, held_y):.3f} "
                  f"bn {bn_sched.layers[0].momentum:.3f}")


if __name__ == "__main__":
    train(Options())
