"""Momentum-contrast pretraining of a range-Doppler encoder (automotive radar)."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

RANGE_BINS, DOPPLER_BINS = 24, 16


def simulate(n, gen):
    """A few point targets per map: gaussian blobs over speckle."""
    r = torch.arange(RANGE_BINS).view(1, 1, -1, 1)
    d = torch.arange(DOPPLER_BINS).view(1, 1, 1, -1)
    k = 3
    r0 = torch.rand(n, k, 1, 1, generator=gen) * RANGE_BINS
    d0 = torch.rand(n, k, 1, 1, generator=gen) * DOPPLER_BINS
    amp = 0.3 + torch.rand(n, k, 1, 1, generator=gen)
    blobs = amp * torch.exp(-((r - r0) ** 2) / 4 - ((d - d0) ** 2) / 2)
    speckle = -torch.log(torch.rand(n, 1, RANGE_BINS, DOPPLER_BINS, generator=gen) + 1e-6) * 0.05
    return torch.log1p(10 * (blobs.sum(1, keepdim=True) + speckle))


class View:
    """Physically plausible augmentations, applied on the accelerator."""

    def __init__(self, p_flip=0.5):
        self.p_flip = p_flip

    def __call__(self, x):
        b = x.size(0)
        gain = 1.0 + 0.2 * torch.randn(b, 1, 1, 1, device=x.device)
        flip = (torch.rand(b, 1, 1, 1, device=x.device) < self.p_flip).to(x.dtype)
        x = flip * x.flip(-1) + (1 - flip) * x
        drop = (torch.rand(b, 1, RANGE_BINS, 1, device=x.device) > 0.1).to(x.dtype)
        return (x * gain) * drop + 0.02 * torch.randn_like(x)


class Encoder(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.GroupNorm(2, 8), nn.SiLU(),
            nn.Conv2d(8, 16, 4, stride=4), nn.SiLU(), nn.Flatten())
        self.proj = nn.Sequential(nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, dim))

    def forward(self, x):
        return F.normalize(self.proj(self.features(x)), dim=1)


class MoCo(nn.Module):
    def __init__(self, dim=24, size=512, momentum=0.99, temperature=0.2):
        super().__init__()
        self.size, self.m, self.t = size, momentum, temperature
        self.query = Encoder(dim)
        self.key = copy.deepcopy(self.query)
        self.key.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(size, dim), dim=1))
        self.ptr = 0

    @torch.no_grad()
    def momentum_update(self, m):
        for q, k in zip(self.query.parameters(), self.key.parameters()):
            k.mul_(m).add_(q, alpha=1 - m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.size(0)
        assert self.size % n == 0
        self.queue[self.ptr:self.ptr + n] = keys
        self.ptr = (self.ptr + n) % self.size

    def forward(self, xq, xk, m):
        q = self.query(xq)
        with torch.no_grad():
            self.momentum_update(m)
            k = self.key(xk)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.queue.clone().T
        logits = torch.cat([pos, neg], dim=1) / self.t
        self.enqueue(k)
        target = torch.zeros(len(q), dtype=torch.long, device=q.device)
        return F.cross_entropy(logits, target), logits


def momentum_at(step, total, base=0.98):
    return 1 - (1 - base) * (math.cos(math.pi * step / total) + 1) / 2


def train(total=24, batch=16):
    torch.manual_seed(909)
    gen = torch.Generator().manual_seed(909)
    device = torch_xla.device()
    maps = simulate(320, gen)
    model = MoCo().to(device)
    opt = torch.optim.SGD(model.query.parameters(), lr=0.06, momentum=0.9, weight_decay=1e-4)
    augment = View()
    top1 = torch.zeros((), device=device)

    for step in range(total):
        lr = 0.06 * min(1.0, (step + 1) / 8)
        for group in opt.param_groups:
            group["lr"] = lr
        idx = torch.randint(0, maps.size(0), (batch,), generator=gen)
        x = maps[idx].to(device)
        loss, logits = model(augment(x), augment(x), momentum_at(step, total))
        opt.zero_grad()
        loss.backward()
        opt.step()
        top1 = 0.95 * top1 + 0.05 * (logits.detach().argmax(1) == 0).float().mean()
        xm.mark_step()
        if step % 6 == 5:
            print(f"[{step + 1}/{total}] loss {loss.item():.3f} top1 {top1.item():.3f}")


if __name__ == "__main__":
    train()
