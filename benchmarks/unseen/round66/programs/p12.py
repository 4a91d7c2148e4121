"""Small adversarial generator of terrain height maps.

Non-saturating loss, R1 penalty applied lazily as in StyleGAN2, exponential average of the generator, and a periodic
look at the slope statistics of what the averaged generator draws.
"""
import copy
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SIZE = 16
LATENT = 24
BATCH = 16
STEPS = 64
R1_EVERY = 8
R1_GAMMA = 2.0
REPORT_EVERY = 16


def fractal_terrain(rng, n, size, beta=2.2):
    """Spectral synthesis: white noise shaped by a power law."""
    fy = np.fft.fftfreq(size)[:, None]
    fx = np.fft.rfftfreq(size)[None, :]
    radius = np.sqrt(fx ** 2 + fy ** 2)
    radius[0, 0] = 1.0
    amplitude = radius ** (-beta / 2)
    amplitude[0, 0] = 0.0
    noise = rng.standard_normal((n, size, size))
    field = np.fft.irfft2(np.fft.rfft2(noise) * amplitude, s=(size, size))
    field /= np.abs(field).max(axis=(1, 2), keepdims=True)
    return field[:, None].astype(np.float32)


class Generator(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.seed = nn.Linear(LATENT, width * 4 * 4)
        self.width = width
        self.up1 = nn.Conv2d(width, width, 3, padding=1)
        self.up2 = nn.Conv2d(width, width, 3, padding=1)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, z):
        h = self.seed(z).view(-1, self.width, 4, 4)
        for conv in (self.up1, self.up2):
            h = h.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
            h = F.leaky_relu(conv(h), 0.2)
        return torch.tanh(self.out(h))


class Discriminator(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.down1 = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.down2 = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.fc = nn.Linear(width * (SIZE // 4) ** 2 + 1, 1)

    def forward(self, x):
        h = F.leaky_relu(self.down1(x), 0.2)
        h = F.leaky_relu(self.down2(h), 0.2)
        spread = (h - h.mean(0)).square().mean(0).add(1e-8).sqrt().mean().expand(h.shape[0], 1)
        return self.fc(torch.cat([h.flatten(1), spread], 1)).squeeze(1)


def set_grad(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


@torch.no_grad()
def lerp_into(target, source, beta):
    for t, s in zip(target.parameters(), source.parameters()):
        t.lerp_(s, 1.0 - beta)


@torch.no_grad()
def mean_slope(height):
    dx = height[..., :, 1:] - height[..., :, :-1]
    dy = height[..., 1:, :] - height[..., :-1, :]
    return dx.abs().mean() + dy.abs().mean()


def main(seed=21):
    random.seed(seed)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    device = torch_xla.device()
    terrain = fractal_terrain(rng, 512, SIZE)

    g, d = Generator().to(device), Discriminator().to(device)
    g_avg = copy.deepcopy(g)
    set_grad(g_avg, False)
    ratio = R1_EVERY / (R1_EVERY + 1)
    g_opt = torch.optim.Adam(g.parameters(), lr=2e-3, betas=(0.0, 0.99))
    d_opt = torch.optim.Adam(d.parameters(), lr=2e-3 * ratio, betas=(0.0, 0.99 ** ratio))
    probe = torch.randn(BATCH, LATENT, device=device)

    for it in range(STEPS):
        real = torch.from_numpy(terrain[rng.integers(0, len(terrain), BATCH)])
        if rng.random() < 0.5:
            real = real.flip(-1)
        real = real.to(device)

        set_grad(d, True)
        z = torch.randn(BATCH, LATENT, device=device)
        with torch.no_grad():
            fake = g(z)
        d_loss = F.softplus(d(fake)).mean() + F.softplus(-d(real)).mean()
        d_opt.zero_grad()
        d_loss.backward()
        if it % R1_EVERY == 0:
            leaf = real.detach().requires_grad_(True)
            grad, = torch.autograd.grad(d(leaf).sum(), leaf, create_graph=True)
            penalty = grad.square().sum((1, 2, 3)).mean()
            (0.5 * R1_GAMMA * R1_EVERY * penalty).backward()
        xm.optimizer_step(d_opt)

        set_grad(d, False)
        z = torch.randn(BATCH, LATENT, device=device)
        g_loss = F.softplus(-d(g(z))).mean()
        g_opt.zero_grad()
        g_loss.backward()
        xm.optimizer_step(g_opt)
        lerp_into(g_avg, g, 0.98)
        xm.mark_step()

        if (it + 1) % REPORT_EVERY == 0:
            with torch.no_grad():
                slope = mean_slope(g_avg(probe)).item()
            print(f"it {it + 1:3d}  d {d_loss.item():.3f}  g {g_loss.item():.3f}  slope {slope:.3f} "
                  f"(data {mean_slope(torch.from_numpy(terrain)).item():.3f})")


if __name__ == "__main__":
    main()
