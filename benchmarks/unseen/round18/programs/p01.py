"""Deblur a short microscope sequence frame by frame.

Each frame is restored by solving the regularised normal equations

    (K^T K + lam * L) x = K^T y

with conjugate gradients, where K is the (known) point spread function of the
objective and L the five point Laplacian.  Frames are processed in order, the
estimate of the previous frame is the starting point of the next one.
"""
import argparse
import logging
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
import torch_xla

log = logging.getLogger("deblur")


@dataclass
class SolverOptions:
    lam: float = 0.01
    max_iter: int = 32
    rtol: float = 3e-5
    report_every: int = 8


@dataclass
class SolveReport:
    iterations: int
    residual: float
    history: list


def gaussian_psf(size: int, sigma: float) -> torch.Tensor:
    ax = torch.arange(size, dtype=torch.float32) - (size - 1) / 2
    k = torch.exp(-(ax[:, None] ** 2 + ax[None, :] ** 2) / (2 * sigma ** 2))
    return (k / k.sum()).view(1, 1, size, size)


class BlurOperator:
    """K and its adjoint (the kernel is symmetric, so the two coincide)."""

    def __init__(self, psf: torch.Tensor, device):
        self.psf = psf.to(device)
        self.pad = psf.shape[-1] // 2
        self.lap = torch.tensor([[0., -1., 0.], [-1., 4., -1.], [0., -1., 0.]],
                                device=device).view(1, 1, 3, 3)

    def blur(self, x):
        return F.conv2d(x, self.psf, padding=self.pad)

    def normal(self, x, lam):
        return self.blur(self.blur(x)) + lam * F.conv2d(x, self.lap, padding=1)


def dot(a, b):
    return (a * b).sum()


def conjugate_gradient(op: BlurOperator, rhs, x, opts: SolverOptions) -> tuple:
    """Plain CG, stopped on the relative residual."""
    r = rhs - op.normal(x, opts.lam)
    p = r.clone()
    rs = dot(r, r)
    target = opts.rtol ** 2 * dot(rhs, rhs).item()
    history = []
    it = 0
    while it < opts.max_iter:
        q = op.normal(p, opts.lam)
        alpha = rs / dot(p, q)
        x = x + alpha * p
        r = r - alpha * q
        rs_new = dot(r, r)
        p = r + (rs_new / rs) * p
        rs = rs_new
        it += 1
        res = rs_new.item()
        history.append(res)
        if it % opts.report_every == 0:
            log.info("    it %2d  |r|^2 %.3e", it, res)
        if res < target:
            break
    return x, SolveReport(it, history[-1], history)


def synth_frame(rng: np.random.Generator, size: int, t: int) -> torch.Tensor:
    """A few drifting blobs, as the beads of the calibration slide."""
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32)
    img = np.zeros((size, size), np.float32)
    for k in range(6):
        cx = size * (0.2 + 0.12 * k) + 1.5 * t * math.cos(k)
        cy = size * (0.8 - 0.11 * k) + 1.5 * t * math.sin(k)
        img += np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / (2.0 + 0.4 * k))
    img += 0.01 * rng.standard_normal(img.shape).astype(np.float32)
    return torch.from_numpy(img).view(1, 1, size, size)


def psnr(a, b):
    return -10.0 * torch.log10(((a - b) ** 2).mean())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--frames", type=int, default=4)
    ap.add_argument("--size", type=int, default=32)
    args = ap.parse_args()
    log.setLevel(logging.INFO)
    log.addHandler(logging.StreamHandler())
    log.propagate = False

    device = torch_xla.device()
    rng = np.random.default_rng(5)
    opts = SolverOptions()
    op = BlurOperator(gaussian_psf(5, 1.2), device)
    estimate = torch.zeros(1, 1, args.size, args.size, device=device)
    restored = []

    for t in range(args.frames):
        clean = synth_frame(rng, args.size, t).to(device)
        noise = 0.005 * torch.from_numpy(
            rng.standard_normal((1, 1, args.size, args.size)).astype(np.float32)).to(device)
        observed = op.blur(clean) + noise
        rhs = op.blur(observed)
        torch_xla.sync()

        estimate, report = conjugate_gradient(op, rhs, estimate, opts)
        torch_xla.sync()

        quality = psnr(estimate, clean)
        before = psnr(observed, clean)
        torch_xla.sync()
        log.info("frame %d: %d iterations, |r|^2 %.3e, psnr %.2f -> %.2f dB", t,
                 report.iterations, report.residual, before.item(), quality.item())
        restored.append(estimate)

    drift = torch.stack([(b - a).abs().mean() for a, b in zip(restored, restored[1:])])
    torch_xla.sync()
    log.info("mean change between frames: %s", ", ".join(f"{v:.4f}" for v in drift.tolist()))


if __name__ == "__main__":
    main()
