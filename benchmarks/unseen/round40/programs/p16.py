"""StyleGAN-flavoured GAN on 2-D point clouds of spirals: two discriminator steps
per generator step, lazy R1 regularisation and a weight average for sampling."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

LATENT = 16
BATCH = 64
STEPS = 48
D_STEPS = 2
R1_EVERY = 8
R1_GAMMA = 0.5
EMA_DECAY = 0.98
SAMPLE_EVERY = 12


def spiral(count, generator):
    t = torch.rand(count, generator=generator).sqrt() * 3.0 * math.pi
    arm = torch.randint(0, 2, (count,), generator=generator).float() * math.pi
    radius = t / (3.0 * math.pi)
    points = torch.stack([radius * torch.cos(t + arm), radius * torch.sin(t + arm)], dim=1)
    return points + 0.02 * torch.randn(count, 2, generator=generator)


class PixelNorm(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(dim=1, keepdim=True) + 1e-8)


class Generator(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.mapping = nn.Sequential(PixelNorm(), nn.Linear(LATENT, width), nn.LeakyReLU(0.2))
        self.start = nn.Parameter(torch.randn(1, width))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.styles = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.out = nn.Linear(width, 2)

    def forward(self, z):
        w = self.mapping(z)
        x = self.start.expand(z.size(0), -1)
        for layer, style in zip(self.layers, self.styles):
            x = F.leaky_relu(layer(x) * (1.0 + style(w)), 0.2)
        return self.out(x)


class Discriminator(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, width),
            nn.LeakyReLU(0.2),
            nn.Linear(width, width),
            nn.LeakyReLU(0.2),
            nn.Linear(width, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def set_grad(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


def discriminator_step(disc, gen, opt, real, z, regularise):
    set_grad(disc, True)
    opt.zero_grad()
    with torch.no_grad():
        fake = gen(z)
    real = real.requires_grad_(regularise)
    real_score = disc(real)
    loss = F.softplus(disc(fake)).mean() + F.softplus(-real_score).mean()
    total = loss
    if regularise:
        (grad,) = torch.autograd.grad(real_score.sum(), real, create_graph=True)
        total = total + 0.5 * R1_GAMMA * R1_EVERY * grad.pow(2).sum(dim=1).mean()
    total.backward()
    xm.optimizer_step(opt)
    return loss.detach()


def generator_step(disc, gen, ema, opt, z):
    set_grad(disc, False)
    opt.zero_grad()
    loss = F.softplus(-disc(gen(z))).mean()
    loss.backward()
    xm.optimizer_step(opt)
    with torch.no_grad():
        for slow, fast in zip(ema.parameters(), gen.parameters()):
            slow.mul_(EMA_DECAY).add_(fast, alpha=1.0 - EMA_DECAY)
    return loss.detach()


@torch.no_grad()
def coverage(ema, z, reference):
    fake = ema(z)
    nearest = torch.cdist(reference, fake).min(dim=1).values
    return (nearest < 0.1).float().mean()


def main():
    torch.manual_seed(8)
    cpu_rng = torch.Generator().manual_seed(8)
    device = torch_xla.device()
    gen, disc = Generator().to(device), Discriminator().to(device)
    ema = copy.deepcopy(gen)
    opt_g = torch.optim.Adam(gen.parameters(), lr=2e-3, betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(disc.parameters(), lr=2e-3, betas=(0.0, 0.99))
    reference = spiral(256, cpu_rng).to(device)
    fixed_z = torch.randn(256, LATENT, generator=cpu_rng).to(device)
    torch_xla.sync()

    d_updates = 0
    for step in range(1, STEPS + 1):
        for _ in range(D_STEPS):
            real = spiral(BATCH, cpu_rng).to(device)
            z = torch.randn(BATCH, LATENT, generator=cpu_rng).to(device)
            regularise = d_updates % R1_EVERY == 0
            d_loss = discriminator_step(disc, gen, opt_d, real, z, regularise)
            torch_xla.sync()
            d_updates += 1
        z = torch.randn(BATCH, LATENT, generator=cpu_rng).to(device)
        g_loss = generator_step(disc, gen, ema, opt_g, z)
        torch_xla.sync()

        if step % SAMPLE_EVERY == 0:
            covered = coverage(ema, fixed_z, reference)
            torch_xla.sync()
            print(
                f"step {step} d {d_loss.item():.3f} g {g_loss.item():.3f} "
                f"coverage {covered.item():.3f}"
            )


if __name__ == "__main__":
    main()
