"""Sparse-view CT reconstruction: learned denoiser + conjugate-gradient data
consistency, a few cascades trained end to end."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SIDE = 14
ANGLES = 18
DETECTORS = 14
STEPS = 24
BATCH = 3


def projection_matrix():
    ys, xs = np.mgrid[0:SIDE, 0:SIDE] - (SIDE - 1) / 2
    rows = []
    for a in np.arange(ANGLES) * math.pi / ANGLES:
        s = (xs * math.cos(a) + ys * math.sin(a)).ravel() + (DETECTORS - 1) / 2
        for d in range(DETECTORS):
            rows.append(np.maximum(0, 1 - np.abs(s - d)))
    return torch.tensor(np.stack(rows), dtype=torch.float32) / SIDE


def phantom(rng, n):
    ys, xs = np.mgrid[-1:1:SIDE * 1j, -1:1:SIDE * 1j]
    out = np.zeros((n, SIDE, SIDE), np.float32)
    for k in range(n):
        for _ in range(rng.integers(2, 6)):
            cx, cy = rng.uniform(-0.6, 0.6, 2)
            ax, ay = rng.uniform(0.15, 0.6, 2)
            out[k] += rng.uniform(0.2, 1.0) * (((xs - cx) / ax) ** 2 + ((ys - cy) / ay) ** 2 < 1)
    return torch.from_numpy(out)


def acquire(rng, A):
    img = phantom(rng, BATCH).reshape(BATCH, -1)
    keep = rng.random((BATCH, ANGLES)) < rng.uniform(0.25, 0.9)
    mask = torch.from_numpy(np.repeat(keep, DETECTORS, axis=1).astype(np.float32))
    sino = (img @ A.T + 0.01 * torch.from_numpy(rng.normal(size=(BATCH, A.shape[0])).astype(np.float32))) * mask
    return img, sino, mask


class Denoiser(nn.Module):
    def __init__(self, ch=10):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, ch, 3, padding=1), nn.PReLU(),
            nn.Conv2d(ch, 1, 3, padding=1))

    def forward(self, x):
        img = x.reshape(-1, 1, SIDE, SIDE)
        return (img + self.net(img)).reshape(x.shape)


class DataConsistency(nn.Module):
    """Solves (A^T M A + lam I) x = A^T y + lam z."""

    def __init__(self, A, max_iter=10, tol=1e-3):
        super().__init__()
        self.register_buffer("A", A)
        self.log_lam = nn.Parameter(torch.tensor(-3.0))
        self.max_iter, self.tol = max_iter, tol

    def normal(self, x, mask):
        return ((x @ self.A.T) * mask) @ self.A + self.log_lam.exp() * x

    def forward(self, z, sino, mask):
        rhs = sino @ self.A + self.log_lam.exp() * z
        x = z
        r = rhs - self.normal(x, mask)
        p = r
        rs = (r * r).sum(1, keepdim=True)
        limit = self.tol * (rhs.detach() ** 2).sum()
        for _ in range(self.max_iter):
            Ap = self.normal(p, mask)
            alpha = rs / ((p * Ap).sum(1, keepdim=True) + 1e-8)
            x = x + alpha * p
            r = r - alpha * Ap
            rs_new = (r * r).sum(1, keepdim=True)
            if rs_new.sum() < limit:
                break
            p = r + (rs_new / (rs + 1e-8)) * p
            rs = rs_new
        return x


class Cascade(nn.Module):
    def __init__(self, A, stages=2):
        super().__init__()
        self.denoise = Denoiser()
        self.dc = nn.ModuleList(DataConsistency(A) for _ in range(stages))

    def forward(self, sino, mask):
        x = sino @ self.dc[0].A
        for dc in self.dc:
            x = dc(self.denoise(x), sino, mask)
        return x


def hard_pixel_loss(pred, target, step):
    err = F.smooth_l1_loss(pred, target, reduction="none", beta=0.1).flatten()
    ratio = 1.0 - 0.75 * step / STEPS
    kept = torch.topk(err, int(err.numel() * ratio), sorted=False).values
    return kept.mean()


def main():
    torch.manual_seed(31)
    rng = np.random.default_rng(31)
    device = torch_xla.device()
    A = projection_matrix()
    model = Cascade(A).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    psnr = []
    for step in range(STEPS):
        img, sino, mask = (t.to(device) for t in acquire(rng, A))
        rec = model(sino, mask)
        loss = hard_pixel_loss(rec, img, step)
        opt.zero_grad()
        loss.backward()
        opt.step()
        mse = (rec.detach() - img).pow(2).mean()
        torch_xla.sync()
        psnr.append(-10 * math.log10(mse.item() + 1e-9))
        if (step + 1) % 4 == 0:
            print(f"{step + 1:3d} loss {loss.item():.4f} psnr {np.mean(psnr[-4:]):.2f}")


if __name__ == "__main__":
    main()
