"""One network, three magnifications: multi-scale super-resolution on synthetic textures."""
import math
from itertools import cycle

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SCALES = (2, 3, 4)
PATCH = 8          # low-resolution patch edge
WIDTH = 8
STEPS = 42
FULL_LR = 12       # validation images, low-resolution edge


class Textures:
    """Sums of oriented gratings plus a few hard edges."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def image(self, edge):
        yy, xx = np.mgrid[0:edge, 0:edge] / 16.0
        img = np.zeros((edge, edge))
        for _ in range(4):
            a, f, p = self.rng.uniform(0, math.pi), self.rng.uniform(0.5, 3), self.rng.uniform(0, 6)
            img += np.sin(2 * math.pi * f * (xx * math.cos(a) + yy * math.sin(a)) + p) / 4
        c = self.rng.uniform(0.2, 0.8) * edge / 16
        img += 0.5 * (xx * math.cos(p) + yy * math.sin(p) > c)
        return img.astype(np.float32)

    def pairs(self, n, lr_edge, scale):
        hr = torch.from_numpy(np.stack([self.image(lr_edge * scale) for _ in range(n)]))[:, None]
        lr = F.avg_pool2d(hr, scale)
        if self.rng.random() < 0.5:
            lr, hr = lr.flip(-1), hr.flip(-1)
        return lr.contiguous(), hr.contiguous()


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        return x + 0.1 * self.b(F.relu(self.a(x)))


class MultiScaleSR(nn.Module):
    """Shared body; a sub-pixel tail for each magnification."""

    def __init__(self, c):
        super().__init__()
        self.head = nn.Conv2d(1, c, 3, padding=1)
        self.body = ResBlock(c)
        self.tails = nn.ModuleDict({
            str(s): nn.Sequential(nn.Conv2d(c, s * s, 3, padding=1), nn.PixelShuffle(s))
            for s in SCALES
        })

    def forward(self, lr, scale):
        h = self.head(lr)
        h = h + self.body(h)
        base = lr.repeat_interleave(scale, dim=2).repeat_interleave(scale, dim=3)
        return base + self.tails[str(scale)](h)


class Ema:
    def __init__(self, model, decay):
        self.decay = decay
        self.params = list(model.parameters())
        self.shadow = [p.detach().clone() for p in self.params]

    @torch.no_grad()
    def update(self):
        for s, p in zip(self.shadow, self.params):
            s.lerp_(p, 1 - self.decay)

    @torch.no_grad()
    def swap(self):
        for s, p in zip(self.shadow, self.params):
            kept = p.clone()
            p.copy_(s)
            s.copy_(kept)


def psnr(a, b):
    return -10 * torch.log10(F.mse_loss(a, b) / 4)


@torch.no_grad()
def validate(model, ema, sets):
    ema.swap()
    model.eval()
    torch_xla.sync()
    scores = {}
    for scale, (lr, hr) in sets.items():
        crop = slice(scale, -scale)
        sr = model(lr, scale)
        scores[scale] = psnr(sr[..., crop, crop], hr[..., crop, crop]).item()
    model.train()
    ema.swap()
    torch_xla.sync()
    return scores


def main():
    torch.manual_seed(40)
    device = torch_xla.device()
    train, val = Textures(1), Textures(2)
    model = MultiScaleSR(WIDTH).to(device)
    ema = Ema(model, 0.9)
    opt = torch.optim.SGD(model.parameters(), lr=0.02)
    sets = {s: tuple(t.to(device) for t in val.pairs(2, FULL_LR, s)) for s in SCALES}
    torch_xla.sync()

    scales = cycle(SCALES)
    recent = {s: [] for s in SCALES}
    for step in range(1, STEPS + 1):
        scale = next(scales)
        lr, hr = (t.to(device) for t in train.pairs(4, PATCH, scale))
        opt.zero_grad()
        sr = model(lr, scale)
        loss = torch.sqrt((sr - hr).square() + 1e-6).mean()
        loss.backward()
        opt.step()
        ema.update()
        torch_xla.sync()
        recent[scale].append(loss.detach())
        if step % 14 == 0:
            scores = validate(model, ema, sets)
            means = {s: float(np.mean([v.item() for v in vals])) for s, vals in recent.items()}
            print(f"step {step} " + " ".join(
                f"x{s}: loss {means[s]:.3f} psnr {scores[s]:.2f}" for s in SCALES))
            recent = {s: [] for s in SCALES}


if __name__ == "__main__":
    main()
