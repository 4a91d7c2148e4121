"""Point-cloud classification in the manner of PointNet, with the usual decay of learning rate and batch-norm momentum."""
import math

import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CLOUD, BATCH = 64, 12


def make_cloud(kind, g):
    u = torch.randn(CLOUD, 3, generator=g)
    if kind == 0:
        return F.normalize(u, dim=1)
    if kind == 1:
        return u.clamp(-1, 1).sign() * torch.rand(CLOUD, 3, generator=g)
    a = torch.rand(CLOUD, generator=g) * 2 * math.pi
    return torch.stack([a.cos(), a.sin(), u[:, 2]], 1)


def dataset(n, seed):
    g = torch.Generator().manual_seed(seed)
    label = torch.randint(3, (n,), generator=g)
    return torch.stack([make_cloud(int(k), g) for k in label]), label


def shared_mlp(*dims):
    layers = []
    for a, b in zip(dims, dims[1:]):
        layers += [nn.Conv1d(a, b, 1, bias=False), nn.BatchNorm1d(b), nn.ReLU()]
    return nn.Sequential(*layers)


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.local = shared_mlp(3, 16, 32)
        self.glob = shared_mlp(32, 64)
        self.head = nn.Sequential(nn.Linear(64, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, pts):
        h = self.local(pts.transpose(1, 2))
        return self.head(self.glob(h).amax(2))


class BNMomentumScheduler:
    """momentum = max(start * decay ** (epoch // every), floor), as in the PointNet++ code."""

    def __init__(self, model, start=0.5, decay=0.7, every=1, floor=0.01):
        self.model, self.start, self.decay, self.every, self.floor = model, start, decay, every, floor

    def step(self, epoch):
        m = max(self.start * self.decay ** (epoch // self.every), self.floor)
        for mod in self.model.modules():
            if isinstance(mod, nn.BatchNorm1d):
                mod.momentum = m
        return m


def run(epochs=7):
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = PointNet().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    lr_sched = torch.optim.lr_scheduler.StepLR(opt, step_size=2, gamma=0.7)
    bn_sched = BNMomentumScheduler(model)
    x, y = dataset(BATCH * 4, 0)
    xv, yv = dataset(BATCH, 1)
    xv, yv = xv.to(dev), yv.to(dev)
    torch_xla.sync()
    for epoch in range(epochs):
        m = bn_sched.step(epoch)
        model.train()
        for lo in range(0, len(x), BATCH):
            xb, yb = x[lo:lo + BATCH].to(dev), y[lo:lo + BATCH].to(dev)
            opt.zero_grad()
            loss = F.cross_entropy(model(xb), yb)
            loss.backward()
            xm.optimizer_step(opt)
            torch_xla.sync()
        lr_sched.step()
        model.eval()
        with torch.no_grad():
            right = (model(xv).argmax(1) == yv).sum()
        torch_xla.sync()
        xm.master_print(f"epoch {epoch} bn {m:.3f} lr {lr_sched.get_last_lr()[0]:.5f} val {right.item()}/{BATCH}")


run()
