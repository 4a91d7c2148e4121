#!/usr/bin/env python
"""Regression of peak positions in 1-D spectra with a small residual CNN."""
import time
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla as txla


class ChannelNorm(nn.Module):
    """Batch statistics while fitting, moving averages otherwise."""

    def __init__(self, ch, momentum=0.1, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(ch, 1))
        self.shift = nn.Parameter(torch.zeros(ch, 1))
        self.register_buffer("mean", torch.zeros(ch, 1))
        self.register_buffer("var", torch.ones(ch, 1))
        self.momentum, self.eps = momentum, eps

    def forward(self, x):
        if self.training:
            m = x.mean((0, 2)).unsqueeze(-1)
            v = (x - m).square().mean((0, 2)).unsqueeze(-1)
            with torch.no_grad():
                self.mean.lerp_(m, self.momentum)
                self.var.lerp_(v, self.momentum)
        else:
            m, v = self.mean, self.var
        return (x - m) * torch.rsqrt(v + self.eps) * self.gain + self.shift


class Res(nn.Module):
    def __init__(self, ch, p):
        super().__init__()
        self.c1 = nn.Conv1d(ch, ch, 3, padding=1, bias=False)
        self.b1 = ChannelNorm(ch)
        self.c2 = nn.Conv1d(ch, ch, 3, padding=1, bias=False)
        self.b2 = ChannelNorm(ch, momentum=0.05)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        y = F.leaky_relu(self.b1(self.c1(x)), 0.1)
        y = self.b2(self.c2(self.drop(y)))
        return F.leaky_relu(x + y, 0.1)


class PeakNet(nn.Module):
    def __init__(self, ch=12, depth=1, p=0.15):
        super().__init__()
        self.stem = nn.Conv1d(1, ch, 7, stride=2, padding=3)
        self.blocks = nn.Sequential(*[Res(ch, p) for _ in range(depth)])
        self.head = nn.Sequential(nn.Linear(ch, 16), nn.ELU(), nn.Linear(16, 1))

    def forward(self, x):
        h = self.blocks(self.stem(x.unsqueeze(1)))
        w = h.mean(1, keepdim=True).softmax(-1)
        return self.head((h * w).sum(-1)).squeeze(-1)


def spectra(n, length=32, seed=0):
    g = torch.Generator().manual_seed(seed)
    pos = torch.rand(n, generator=g)
    grid = torch.linspace(0, 1, length)
    y = torch.exp(-((grid[None] - pos[:, None]) ** 2) / 0.005)
    return y + 0.02 * torch.randn(n, length, generator=g), pos


@torch.no_grad()
def validate(model, x, y):
    model.eval()
    pred = model(x)
    mae = (pred - y).abs().mean()
    txla.sync()
    return mae.item()


def train(iters=10, bs=16, eval_every=5):
    torch.manual_seed(123)
    dev = txla.device()
    xs, ys = spectra(256)
    vx, vy = (t.to(dev) for t in spectra(64, seed=1))
    net = PeakNet().to(dev)
    opt = torch.optim.Adam(net.parameters(), lr=3e-3, betas=(0.9, 0.98))
    net.train()
    txla.sync()
    t0 = time.time()
    for it in range(iters):
        sel = torch.randperm(len(xs))[:bs]
        x, y = xs[sel].to(dev), ys[sel].to(dev)
        opt.zero_grad()
        loss = F.smooth_l1_loss(net(x), y, beta=0.1)
        loss.backward()
        opt.step()
        txla.sync()
        if (it + 1) % eval_every == 0:
            print(f"{it + 1:4d} train {loss.item():.4f} val mae {validate(net, vx, vy):.4f} {time.time() - t0:.1f}s")


if __name__ == "__main__":
    train()
