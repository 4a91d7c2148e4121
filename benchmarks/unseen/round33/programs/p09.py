"""Diffusion over pen strokes: self-conditioned denoiser, EMA weights, DDIM previews."""
import copy
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

POINTS, DIM = 24, 48
T = 200
BATCH, STEPS = 32, 60
PREVIEW_EVERY, PREVIEW_STEPS = 20, 8
SELF_COND_P = 0.5


def strokes(rng, n):
    s = np.linspace(0, 1, POINTS)[None, :]
    f = rng.integers(1, 4, (n, 1))
    phase = rng.uniform(0, 2 * math.pi, (n, 1))
    r = rng.uniform(0.4, 1.0, (n, 1))
    x = r * np.cos(2 * math.pi * f * s + phase) + s - 0.5
    y = r * np.sin(2 * math.pi * s + phase)
    return np.stack([x, y], -1).astype(np.float32)


class Denoiser(nn.Module):
    """MLP-mixer over the points; sees the noisy stroke and its own previous guess."""

    def __init__(self, blocks=1):
        super().__init__()
        self.inp = nn.Linear(4, DIM)
        self.time = nn.Sequential(nn.Linear(32, DIM), nn.SiLU(), nn.Linear(DIM, DIM))
        self.mix = nn.ModuleList(
            nn.ModuleList([nn.LayerNorm(DIM), nn.Linear(POINTS, POINTS),
                           nn.LayerNorm(DIM), nn.Linear(DIM, 2 * DIM), nn.Linear(2 * DIM, DIM)])
            for _ in range(blocks))
        self.out = nn.Linear(DIM, 2)
        half = torch.exp(torch.arange(16).float() * (-math.log(1000.0) / 16))
        self.register_buffer("freq", half)

    def forward(self, x, t, guess=None):
        if guess is None:
            guess = torch.zeros_like(x)
        ang = t.float()[:, None] * self.freq
        emb = self.time(torch.cat([ang.sin(), ang.cos()], 1))
        h = self.inp(torch.cat([x, guess], -1)) + emb[:, None]
        for n1, tok, n2, up, down in self.mix:
            h = h + tok(n1(h).transpose(1, 2)).transpose(1, 2)
            h = h + down(F.silu(up(n2(h))))
        return self.out(h)


class Schedule:
    def __init__(self, device):
        s = torch.arange(T + 1).float() / T
        bar = torch.cos((s + 0.008) / 1.008 * math.pi / 2) ** 2
        self.bar = (bar / bar[0]).clamp(1e-4, 0.9999).to(device)

    def at(self, t):
        b = self.bar[t][:, None, None]
        return b.sqrt(), (1 - b).sqrt()


def training_loss(net, sched, x0):
    t = torch.randint(1, T + 1, (x0.shape[0],), device=x0.device)
    a, s = sched.at(t)
    xt = a * x0 + s * torch.randn_like(x0)
    guess = None
    if random.random() < SELF_COND_P:
        with torch.no_grad():
            guess = net(xt, t)
    snr = (a / s).square().clamp(max=5.0)
    err = (net(xt, t, guess) - x0).square() * snr
    return err.mean()


@torch.no_grad()
def ddim(net, sched, n, device):
    x = torch.randn(n, POINTS, 2, device=device)
    guess = None
    grid = np.linspace(T, 0, PREVIEW_STEPS + 1).round().astype(np.int64)
    for now, nxt in zip(grid[:-1], grid[1:]):
        t_now = torch.full((n,), int(now)).to(device)
        t_nxt = torch.full((n,), int(nxt)).to(device)
        guess = net(x, t_now, guess).clamp(-2.5, 2.5)
        a, s = sched.at(t_now)
        eps = (x - a * guess) / s
        a2, s2 = sched.at(t_nxt)
        x = a2 * guess + s2 * eps
        torch_xla.sync()
    return x.cpu()


@torch.no_grad()
def ema_update(avg, net, step, decay=0.98):
    d = min(decay, (1 + step) / (10 + step))
    for pa, p in zip(avg.parameters(), net.parameters()):
        pa.mul_(d).add_(p, alpha=1 - d)


def main():
    random.seed(23)
    torch.manual_seed(23)
    rng = np.random.default_rng(23)
    device = torch_xla.device()
    xm.set_rng_state(23)
    net = Denoiser().to(device)
    avg = copy.deepcopy(net).eval().requires_grad_(False)
    sched = Schedule(device)
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.01)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=STEPS, eta_min=2e-4)
    torch_xla.sync()

    for step in range(1, STEPS + 1):
        x0 = torch.from_numpy(strokes(rng, BATCH)).to(device)
        loss = training_loss(net, sched, x0)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        cosine.step()
        ema_update(avg, net, step)
        torch_xla.sync()
        if step % PREVIEW_EVERY == 0:
            pics = ddim(avg, sched, 16, device)
            print(f"step {step} loss {loss.item():.4f} preview spread {pics.std().item():.3f}")


if __name__ == "__main__":
    main()
