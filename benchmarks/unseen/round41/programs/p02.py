"""Small convolutional GAN on synthetic galaxy stamps, lazy R1 and an EMA generator."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SIZE = 16
BATCH = 16
Z_DIM = 24
STEPS = 48
R1_EVERY = 4
R1_GAMMA = 2.0
EMA_DECAY = 0.98


def galaxy_batch(n, gen):
    """Elliptical exponential profiles with random tilt, axis ratio and scale."""
    ax = torch.linspace(-1, 1, SIZE)
    yy, xx = torch.meshgrid(ax, ax, indexing="ij")
    theta = torch.rand(n, 1, 1, generator=gen) * math.pi
    q = 0.3 + 0.7 * torch.rand(n, 1, 1, generator=gen)
    scale = 0.15 + 0.25 * torch.rand(n, 1, 1, generator=gen)
    u = xx * theta.cos() + yy * theta.sin()
    v = (-xx * theta.sin() + yy * theta.cos()) / q
    img = torch.exp(-torch.sqrt(u ** 2 + v ** 2 + 1e-4) / scale)
    img = img + 0.02 * torch.randn(img.shape, generator=gen)
    return (img * 2 - 1).unsqueeze(1)


class Generator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.width = width
        self.fc = nn.Linear(Z_DIM, width * 4 * 4)
        self.c1 = nn.Conv2d(width, width, 3, padding=1)
        self.c2 = nn.Conv2d(width, width // 2, 3, padding=1)
        self.out = nn.Conv2d(width // 2, 1, 1)

    @staticmethod
    def up(x):
        return x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)

    def forward(self, z):
        x = F.leaky_relu(self.fc(z), 0.2).view(-1, self.width, 4, 4)
        x = F.leaky_relu(self.c1(self.up(x)), 0.2)
        x = F.leaky_relu(self.c2(self.up(x)), 0.2)
        return torch.tanh(self.out(x))


class Discriminator(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.c1 = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.fc = nn.Linear(2 * width * 16, 1)

    def forward(self, x):
        x = F.leaky_relu(self.c1(x), 0.2)
        x = F.leaky_relu(self.c2(x), 0.2)
        return self.fc(x.flatten(1)).squeeze(1)


def r1_penalty(disc, real):
    real = real.detach().requires_grad_(True)
    score = disc(real).sum()
    grad, = torch.autograd.grad(score, real, create_graph=True)
    return grad.pow(2).sum(dim=(1, 2, 3)).mean()


@torch.no_grad()
def update_ema(ema, model, decay):
    for pe, p in zip(ema.parameters(), model.parameters()):
        pe.lerp_(p, 1.0 - decay)


@torch.no_grad()
def radial_profile_gap(ema, real, z):
    fake = ema(z)
    return (fake.mean(0) - real.mean(0)).abs().mean()


def main():
    torch.manual_seed(11)
    gen = torch.Generator().manual_seed(12)
    device = torch_xla.device()
    xm.set_rng_state(11, device)

    netG, netD = Generator().to(device), Discriminator().to(device)
    ema = copy.deepcopy(netG).requires_grad_(False)
    optG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.0, 0.99))
    ratio = R1_EVERY / (R1_EVERY + 1)
    optD = torch.optim.Adam(netD.parameters(), lr=2e-3 * ratio,
                            betas=(0.0, 0.99 ** ratio))
    z_fixed = torch.randn(BATCH, Z_DIM, device=device)
    torch_xla.sync()

    for step in range(STEPS):
        real = galaxy_batch(BATCH, gen).to(device)

        # discriminator
        netD.requires_grad_(True)
        with torch.no_grad():
            fake = netG(torch.randn(BATCH, Z_DIM, device=device))
        d_loss = F.softplus(-netD(real)).mean() + F.softplus(netD(fake)).mean()
        if step % R1_EVERY == 0:
            d_total = d_loss + 0.5 * R1_GAMMA * R1_EVERY * r1_penalty(netD, real)
        else:
            d_total = d_loss
        optD.zero_grad(set_to_none=True)
        d_total.backward()
        optD.step()
        torch_xla.sync()

        # generator
        netD.requires_grad_(False)
        g_loss = F.softplus(-netD(netG(torch.randn(BATCH, Z_DIM, device=device)))).mean()
        optG.zero_grad(set_to_none=True)
        g_loss.backward()
        optG.step()
        update_ema(ema, netG, EMA_DECAY)
        torch_xla.sync()

        if (step + 1) % 8 == 0:
            gap = radial_profile_gap(ema, real, z_fixed)
            torch_xla.sync()
            print(f"step {step + 1:3d}  D {d_loss.item():.3f}  G {g_loss.item():.3f}  "
                  f"gap {gap.item():.4f}")


if __name__ == "__main__":
    main()
