import copy
import os
import random

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

# EDM-style denoiser on 8x8 blobs with self-conditioning and an EMA sampler.
SIZE, CH = 8, 16
BATCH = 32
STEPS = 64
EMA_START, EMA_DECAY = 12, 0.98
SAMPLE_EVERY, N_SIGMA = 16, 8
SIGMA_DATA, SIGMA_MIN, SIGMA_MAX, RHO = 0.5, 0.02, 10.0, 7.0


def blobs(rng, n):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE]
    c = rng.uniform(1.5, SIZE - 2.5, size=(n, 2, 1, 1))
    w = rng.uniform(0.8, 2.0, size=(n, 1, 1))
    img = np.exp(-((yy - c[:, 0]) ** 2 + (xx - c[:, 1]) ** 2) / (2 * w ** 2))
    return torch.from_numpy((2 * img - 1).astype(np.float32))[:, None]


class ResBlock(nn.Module):
    def __init__(self, ch, emb):
        super().__init__()
        self.norm = nn.GroupNorm(4, ch)
        self.conv1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1)
        self.emb = nn.Linear(emb, ch)

    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm(x))) + self.emb(e)[:, :, None, None]
        return x + self.conv2(F.silu(h))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("freqs", torch.exp(torch.linspace(0, 4, 8)))
        self.inp = nn.Conv2d(2, CH, 3, padding=1)
        self.blocks = nn.ModuleList(ResBlock(CH, 16) for _ in range(2))
        self.out = nn.Conv2d(CH, 1, 3, padding=1)

    def forward(self, x, noise, cond):
        ang = noise[:, None] * self.freqs
        e = torch.cat([ang.sin(), ang.cos()], dim=1)
        h = self.inp(torch.cat([x, cond], dim=1))
        for blk in self.blocks:
            h = blk(h, e)
        return self.out(h)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x, sigma, cond):
        s = sigma[:, None, None, None]
        norm = (s ** 2 + SIGMA_DATA ** 2).sqrt()
        f = self.net(x / norm, sigma.log() / 4, cond)
        return x * SIGMA_DATA ** 2 / norm ** 2 + f * s * SIGMA_DATA / norm


def training_loss(model, x0, use_self_cond):
    sigma = torch.exp(torch.randn(x0.size(0), device=x0.device) * 1.2 - 1.0)
    x = x0 + sigma[:, None, None, None] * torch.randn_like(x0)
    cond = torch.zeros_like(x0)
    if use_self_cond:
        with torch.no_grad():
            cond = model(x, sigma, cond)
    pred = model(x, sigma, cond)
    weight = (sigma ** 2 + SIGMA_DATA ** 2) / (sigma * SIGMA_DATA) ** 2
    return (weight[:, None, None, None] * (pred - x0) ** 2).mean()


def sigma_schedule():
    i = np.arange(N_SIGMA) / (N_SIGMA - 1)
    s = (SIGMA_MAX ** (1 / RHO) + i * (SIGMA_MIN ** (1 / RHO) - SIGMA_MAX ** (1 / RHO))) ** RHO
    return np.append(s, 0.0).astype(np.float32)


@torch.no_grad()
def sample(model, n, device):
    sigmas = sigma_schedule()
    x = torch.randn(n, 1, SIZE, SIZE, device=device) * float(sigmas[0])
    cond = torch.zeros_like(x)
    xm.mark_step()
    for cur, nxt in zip(sigmas[:-1], sigmas[1:]):
        s = torch.full((n,), cur).to(device)
        t = torch.full((n,), nxt).to(device)
        den = model(x, s, cond)
        d = (x - den) / s[:, None, None, None]
        h = (t - s)[:, None, None, None]
        x_next = x + h * d
        if nxt > 0:
            d2 = (x_next - model(x_next, t, den)) / t[:, None, None, None]
            x_next = x + h * 0.5 * (d + d2)
        x, cond = x_next, den
        xm.mark_step()
    return x.cpu()


def main():
    seed = 5
    random.seed(seed)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    device = torch_xla.device()
    xm.set_rng_state(seed)
    model = Denoiser().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    ema = None
    xm.mark_step()

    for step in range(STEPS):
        x0 = blobs(rng, BATCH).to(device)
        loss = training_loss(model, x0, random.random() < 0.5)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step == EMA_START:
            ema = copy.deepcopy(model).requires_grad_(False)
        elif ema is not None:
            with torch.no_grad():
                for e, p in zip(ema.parameters(), model.parameters()):
                    e.lerp_(p, 1 - EMA_DECAY)
        xm.mark_step()
        if (step + 1) % SAMPLE_EVERY == 0:
            imgs = sample(ema, 8, device)
            print(f"step {step + 1} loss {loss.item():.4f} sample std {imgs.std().item():.3f}")


if __name__ == "__main__":
    main()
