"""GAN on short ECG-like pulses: lazy R1 penalty and an averaged generator."""
import copy
import math
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 5
LENGTH, LATENT, BATCH = 48, 12, 32
ITERS, R1_EVERY, R1_GAMMA = 40, 4, 2.0
SAMPLE_EVERY = 10
EMA_BETA = 0.98


def pulses(n, generator):
    t = torch.linspace(0, 1, LENGTH)
    centre = 0.3 + 0.4 * torch.rand(n, 1, generator=generator)
    width = 0.02 + 0.04 * torch.rand(n, 1, generator=generator)
    amp = 0.6 + 0.4 * torch.rand(n, 1, generator=generator)
    peak = amp * torch.exp(-((t - centre) ** 2) / (2 * width ** 2))
    drift = 0.05 * torch.sin(2 * math.pi * (t + torch.rand(n, 1, generator=generator)))
    return peak + drift


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(LATENT, 48), nn.LeakyReLU(0.2),
            nn.Linear(48, 64), nn.LeakyReLU(0.2),
            nn.Linear(64, LENGTH),
        )

    def forward(self, z):
        return self.net(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(LENGTH, 64), nn.SiLU(), nn.Linear(64, 48), nn.SiLU())
        self.out = nn.Linear(48 + 1, 1)

    def forward(self, x):
        h = self.body(x)
        spread = (h.var(dim=0, unbiased=False) + 1e-8).sqrt().mean()
        h = torch.cat([h, spread.expand(h.size(0), 1)], dim=1)
        return self.out(h).squeeze(-1)


def r1_penalty(disc, real):
    real = real.detach().requires_grad_(True)
    (grad,) = torch.autograd.grad(disc(real).sum(), real, create_graph=True)
    return grad.pow(2).sum(dim=1).mean()


def train_discriminator(disc, gen, opt, real, z, regularize):
    with torch.no_grad():
        fake = gen(z)
    loss = F.softplus(disc(fake)).mean() + F.softplus(-disc(real)).mean()
    if regularize:
        loss = loss + 0.5 * R1_GAMMA * R1_EVERY * r1_penalty(disc, real)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.detach()


def train_generator(disc, gen, opt, z):
    disc.requires_grad_(False)
    loss = F.softplus(-disc(gen(z))).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    disc.requires_grad_(True)
    return loss.detach()


@torch.no_grad()
def update_average(avg, model, beta):
    for a, p in zip(avg.parameters(), model.parameters()):
        a.mul_(beta).add_(p, alpha=1 - beta)


@torch.no_grad()
def moments(gen, z, reference):
    """Distance between the mean and deviation profiles of generated and real pulses."""
    fake = gen(z)
    d_mean = (fake.mean(0) - reference.mean(0)).abs().mean()
    d_std = (fake.std(0) - reference.std(0)).abs().mean()
    torch_xla.sync()
    return d_mean.item(), d_std.item()


def main():
    torch.manual_seed(SEED)
    rng = torch.Generator().manual_seed(SEED)
    device = torch_xla.device()
    gen, disc = Generator().to(device), Discriminator().to(device)
    gen_avg = copy.deepcopy(gen).requires_grad_(False)
    opt_g = torch.optim.Adam(gen.parameters(), lr=2e-3, betas=(0.0, 0.99))
    ratio = R1_EVERY / (R1_EVERY + 1)
    opt_d = torch.optim.Adam(disc.parameters(), lr=2e-3 * ratio, betas=(0.0, 0.99 ** ratio))

    reference = pulses(128, rng).to(device)
    fixed_z = torch.randn(128, LATENT, generator=rng).to(device)
    torch_xla.sync()

    for it in range(1, ITERS + 1):
        real = pulses(BATCH, rng).to(device)
        z_d = torch.randn(BATCH, LATENT, generator=rng).to(device)
        z_g = torch.randn(BATCH, LATENT, generator=rng).to(device)

        d_loss = train_discriminator(disc, gen, opt_d, real, z_d, regularize=it % R1_EVERY == 0)
        torch_xla.sync()
        g_loss = train_generator(disc, gen, opt_g, z_g)
        update_average(gen_avg, gen, EMA_BETA)
        torch_xla.sync()

        if it % SAMPLE_EVERY == 0:
            d_mean, d_std = moments(gen_avg, fixed_z, reference)
            print(
                f"{it:3d} D {d_loss.item():.3f} G {g_loss.item():.3f} "
                f"mean gap {d_mean:.3f} std gap {d_std:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
