"""Bird-call embedding model: small conv trunk over log-mel patches, power-mean
(GeM) pooling over time and frequency, prototype softmax with additive margin.

The pooling starts close to plain averaging and is moved towards max pooling
while training goes on, which helps with the short calls in long recordings.
"""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset


class CallPatches(Dataset):
    """Synthetic log-mel patches: each species has a carrier band and a sweep."""

    def __init__(self, n=288, species=12, mels=32, frames=48, seed=5):
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, species, n)
        noise = rng.normal(0.0, 0.4, (n, 1, mels, frames)).astype(np.float32)
        for i, s in enumerate(self.y):
            start = rng.integers(4, frames - 16)
            for t in range(12):
                band = int(4 + 2 * s + 2.0 * math.sin(t * (0.2 + 0.05 * s)))
                noise[i, 0, band % mels, start + t] += 3.0
        self.x = noise

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i]), int(self.y[i])


class PowerMean(nn.Module):
    def __init__(self, p=1.0, eps=1e-5):
        super().__init__()
        self.p = p
        self.eps = eps

    def forward(self, x):
        x = x.clamp(min=self.eps).pow(self.p)
        return x.mean(dim=(2, 3)).pow(1.0 / self.p)

    def extra_repr(self):
        return f"p={self.p:.3f}, eps={self.eps}"


class Trunk(nn.Module):
    def __init__(self, width=16, dim=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 4, stride=4),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 1),
            nn.ReLU(),
        )
        self.pool = PowerMean(p=1.0)
        self.proj = nn.Linear(2 * width, dim)

    def forward(self, x):
        return F.normalize(self.proj(self.pool(self.body(x))), dim=-1)


class MarginHead(nn.Module):
    def __init__(self, dim, classes, scale=10.0, margin=0.1):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, dim) * 0.1)
        self.scale = scale
        self.margin = margin

    def forward(self, emb, target):
        cos = emb @ F.normalize(self.weight, dim=-1).t()
        hot = F.one_hot(target, cos.size(1)).to(cos.dtype)
        return F.cross_entropy(self.scale * (cos - self.margin * hot), target)


def cosine_ramp(step, total, lo, hi):
    t = min(1.0, step / max(1, total))
    return hi + 0.5 * (lo - hi) * (1.0 + math.cos(math.pi * t))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--batch", type=int, default=24)
    ap.add_argument("--lr", type=float, default=8e-3)
    ap.add_argument("--warmup", type=int, default=4)
    ap.add_argument("--p-final", type=float, default=4.0)
    args = ap.parse_args()

    torch.manual_seed(17)
    device = torch_xla.device()
    data = CallPatches()
    loader = DataLoader(data, batch_size=args.batch, shuffle=True, drop_last=True)
    total = args.epochs * len(loader)

    trunk = Trunk().to(device)
    head = MarginHead(32, 12).to(device)
    params = list(trunk.parameters()) + list(head.parameters())
    opt = torch.optim.AdamW(params, lr=args.lr, weight_decay=1e-2)

    step = 0
    for epoch in range(args.epochs):
        trunk.train()
        for x, y in loader:
            x, y = x.to(device), y.to(device)

            warm = min(1.0, (step + 1) / args.warmup)
            for group in opt.param_groups:
                group["lr"] = args.lr * warm * cosine_ramp(step, total, 1.0, 0.05)
            trunk.pool.p = cosine_ramp(step, total, 1.0, args.p_final)

            opt.zero_grad()
            loss = head(trunk(x), y)
            loss.backward()
            opt.step()
            torch_xla.sync()
            step += 1

            if step % 6 == 0:
                print(f"epoch {epoch} step {step:3d} "
                      f"loss {loss.item():.4f} {trunk.pool}")


if __name__ == "__main__":
    main()
