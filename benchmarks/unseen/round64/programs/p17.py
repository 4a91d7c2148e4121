"""Unconditional GAN for single-lead ECG beats: lazy R1, generator EMA, periodic sample dumps."""
import copy
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

LENGTH = 64
LATENT = 12
BATCH = 8
ITERS = 56
R1_EVERY = 4
R1_GAMMA = 2.0
EMA_START = 6
EMA_BETA = 0.98
SAMPLE_EVERY = 8


def beat(rng):
    t = np.linspace(-0.5, 0.5, LENGTH)
    waves = ((-0.22, 0.035, 0.15), (-0.04, 0.010, -0.12), (0.0, 0.013, 1.0),
             (0.04, 0.012, -0.22), (0.23, 0.055, 0.3))
    stretch = rng.uniform(0.85, 1.15)
    sig = np.zeros(LENGTH)
    for mu, sd, amp in waves:
        a = amp * rng.normal(1.0, 0.15)
        sig += a * np.exp(-0.5 * ((t - stretch * mu) / (sd * 1.6)) ** 2)
    return (sig + 0.02 * rng.standard_normal(LENGTH)).astype(np.float32)


class Generator(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.ch = ch
        self.fc = nn.Linear(LATENT, ch * (LENGTH // 4))
        self.c1 = nn.Conv1d(ch, ch, 5, padding=2)
        self.c2 = nn.Conv1d(ch, 1, 5, padding=2)

    def forward(self, z):
        h = F.leaky_relu(self.fc(z), 0.2).view(-1, self.ch, LENGTH // 4)
        h = F.leaky_relu(self.c1(h.repeat_interleave(2, dim=2)), 0.2)
        return self.c2(h.repeat_interleave(2, dim=2)).squeeze(1)


class Discriminator(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.c1 = nn.Conv1d(1, ch, 5, stride=2, padding=2)
        self.c2 = nn.Conv1d(ch, ch, 5, stride=2, padding=2)
        self.fc = nn.Linear(ch * (LENGTH // 4), 1)

    def forward(self, x):
        h = F.leaky_relu(self.c1(x.unsqueeze(1)), 0.2)
        h = F.leaky_relu(self.c2(h), 0.2)
        return self.fc(h.flatten(1)).squeeze(1)


def r1_penalty(disc, real):
    real = real.detach().requires_grad_(True)
    grad, = torch.autograd.grad(disc(real).sum(), real, create_graph=True)
    return grad.square().sum(1).mean()


@torch.no_grad()
def update_ema(target, source, beta):
    for t, s in zip(target.parameters(), source.parameters()):
        t.mul_(beta).add_(s, alpha=1 - beta)


@torch.no_grad()
def sample_stats(gen, z):
    beats = gen(z).cpu().numpy()
    peak = np.abs(beats).max(axis=1)
    return float(peak.mean()), float(np.abs(beats.argmax(axis=1) - LENGTH // 2).mean())


class EcgGan:
    def __init__(self, device):
        self.device = device
        self.gen = Generator().to(device)
        self.disc = Discriminator().to(device)
        self.ema = copy.deepcopy(self.gen).requires_grad_(False)
        self.opt_g = torch.optim.Adam(self.gen.parameters(), lr=1e-3, betas=(0.0, 0.99))
        self.opt_d = torch.optim.Adam(self.disc.parameters(), lr=2e-3, betas=(0.0, 0.99))

    def step_d(self, real, z, regularise):
        with torch.no_grad():
            fake = self.gen(z)
        loss = F.softplus(-self.disc(real)).mean() + F.softplus(self.disc(fake)).mean()
        total = loss
        if regularise:
            total = loss + 0.5 * R1_GAMMA * R1_EVERY * r1_penalty(self.disc, real)
        self.opt_d.zero_grad(set_to_none=True)
        total.backward()
        self.opt_d.step()
        return loss.detach()

    def step_g(self, z):
        self.disc.requires_grad_(False)
        loss = F.softplus(-self.disc(self.gen(z))).mean()
        self.opt_g.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_g.step()
        self.disc.requires_grad_(True)
        return loss.detach()


def main():
    torch.manual_seed(12)
    rng = np.random.default_rng(12)
    device = xm.xla_device()
    gan = EcgGan(device)
    bank = torch.from_numpy(np.stack([beat(rng) for _ in range(256)]))
    fixed_z = torch.randn(BATCH, LATENT, device=device)

    for it in range(ITERS):
        real = bank[torch.randint(0, len(bank), (BATCH,))].to(device)
        z = torch.randn(2, BATCH, LATENT).to(device)
        d_loss = gan.step_d(real, z[0], regularise=it % R1_EVERY == 0)
        xm.mark_step()
        g_loss = gan.step_g(z[1])
        if it >= EMA_START:
            update_ema(gan.ema, gan.gen, EMA_BETA)
        elif it == EMA_START - 1:
            gan.ema.load_state_dict(gan.gen.state_dict())
        xm.mark_step()

        if it % SAMPLE_EVERY == 0:
            d, g = d_loss.item(), g_loss.item()
            if math.isnan(d) or math.isnan(g):
                raise RuntimeError(f"NaN at iteration {it}")
            peak, jitter = sample_stats(gan.ema, fixed_z)
            print(f"it {it:3d} d {d:.3f} g {g:.3f} peak {peak:.2f} jitter {jitter:.1f}")


if __name__ == "__main__":
    main()
