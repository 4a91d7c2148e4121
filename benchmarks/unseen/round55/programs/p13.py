"""PointNet-style classifier for synthetic point clouds of simple solids."""
import math
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SHAPES = ("sphere", "box", "cylinder", "torus")


def sample_cloud(kind, n, g):
    a = torch.rand(n, generator=g) * 2 * math.pi
    b = torch.rand(n, generator=g) * 2 - 1
    if kind == "sphere":
        r = (1 - b ** 2).sqrt()
        pts = torch.stack([r * a.cos(), r * a.sin(), b], 1)
    elif kind == "box":
        pts = torch.rand(n, 3, generator=g) * 2 - 1
        face = torch.randint(0, 3, (n, 1), generator=g)
        sign = torch.randint(0, 2, (n, 1), generator=g).float() * 2 - 1
        pts = pts.scatter(1, face, sign)
    elif kind == "cylinder":
        pts = torch.stack([a.cos(), a.sin(), b], 1)
    else:
        t = b * math.pi
        pts = torch.stack([(1 + 0.4 * t.cos()) * a.cos(), (1 + 0.4 * t.cos()) * a.sin(), 0.4 * t.sin()], 1)
    return pts


def make_batch(bs, n, g):
    y = torch.randint(0, len(SHAPES), (bs,), generator=g)
    x = torch.stack([sample_cloud(SHAPES[int(k)], n, g) for k in y])
    th = torch.rand(bs, generator=g) * 2 * math.pi
    c, s, o, z = th.cos(), th.sin(), torch.ones(bs), torch.zeros(bs)
    rot = torch.stack([c, -s, z, s, c, z, z, z, o], 1).view(bs, 3, 3)
    scale = 0.8 + 0.4 * torch.rand(bs, 1, 1, generator=g)
    jitter = 0.02 * torch.randn(bs, n, 3, generator=g)
    return ((x @ rot) * scale + jitter).transpose(1, 2).contiguous(), y


class TNet(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.k = k
        self.feat = nn.Sequential(nn.Conv1d(k, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1))
        self.head = nn.Linear(32, k * k)
        nn.init.zeros_(self.head.weight)
        with torch.no_grad():
            self.head.bias.copy_(torch.eye(k).flatten())

    def forward(self, x):
        return self.head(self.feat(x).amax(2)).view(-1, self.k, self.k)


class PointNet(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.tnet = TNet()
        self.enc = nn.Sequential(
            nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(),
            nn.Conv1d(16, 32, 1), nn.BatchNorm1d(32), nn.ReLU(),
            nn.Conv1d(32, 48, 1), nn.BatchNorm1d(48),
        )
        self.head = nn.Sequential(nn.Linear(48, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, classes))

    def forward(self, x):
        t = self.tnet(x)
        x = torch.bmm(t.transpose(1, 2), x)
        return self.head(self.enc(x).amax(2)), t


class ModuleSchedule:
    """Applies a function of the iteration to every normalisation layer of a model."""

    def __init__(self, model, fn, last=-1):
        self.layers = [m for m in model.modules() if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d))]
        self.fn, self.last = fn, last
        self.step(last + 1)

    def step(self, it=None):
        self.last = self.last + 1 if it is None else it
        for m in self.layers:
            m.momentum = self.fn(self.last)


def orthogonality(t):
    eye = torch.eye(t.size(1), device=t.device)
    return ((t @ t.transpose(1, 2) - eye) ** 2).sum((1, 2)).mean()


@torch.no_grad()
def accuracy(model, batches, device):
    model.eval()
    ok = torch.zeros((), device=device)
    for x, y in batches:
        ok += (model(x.to(device))[0].argmax(1) == y.to(device)).float().mean()
    model.train()
    return (ok / len(batches)).item()


def main(iters=30, bs=16, n_pts=64):
    torch.manual_seed(5)
    g = torch.Generator().manual_seed(5)
    device = torch_xla.device()
    model = PointNet(len(SHAPES)).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    lr_sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda it: max(0.7 ** (it * bs / 150), 1e-2))
    bn_sched = ModuleSchedule(model, lambda it: max(0.5 * 0.7 ** (it * bs / 150), 0.01))
    val = [make_batch(bs, n_pts, g) for _ in range(2)]

    for it in range(iters):
        x, y = make_batch(bs, n_pts, g)
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        logits, t = model(x)
        loss = F.cross_entropy(logits, y, label_smoothing=0.1) + 1e-3 * orthogonality(t)
        loss.backward()
        opt.step()
        lr_sched.step()
        bn_sched.step()
        xm.mark_step()
        if (it + 1) % 10 == 0:
            print(f"iter {it + 1} loss {loss.item():.4f} val acc {accuracy(model, val, device):.3f} lr {lr_sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
