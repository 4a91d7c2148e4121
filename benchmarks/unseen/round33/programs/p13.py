"""Unpaired translation between two toy image domains (stripes and dots).

A trimmed-down CycleGAN: two generators, two discriminators, least squares
adversarial loss, cycle loss and a pool of previously generated images.
"""
import itertools
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SIZE = 16
BATCH = 5
STEPS = 20


def stripes(n, g):
    phase = torch.rand(n, 1, 1, 1, generator=g) * 6.28
    xs = torch.arange(SIZE).float().view(1, 1, 1, SIZE)
    img = torch.sin(xs * 0.8 + phase).expand(n, 1, SIZE, SIZE)
    return img + 0.05 * torch.randn(n, 1, SIZE, SIZE, generator=g)


def dots(n, g):
    img = -torch.ones(n, 1, SIZE, SIZE)
    spots = torch.rand(n, 1, SIZE, SIZE, generator=g) < 0.1
    return img + 2.0 * spots + 0.05 * torch.randn(n, 1, SIZE, SIZE, generator=g)


class ImagePool:
    """History of generated images (Shrivastava et al.)."""

    def __init__(self, pool_size):
        self.pool_size = pool_size
        self.images = []

    def query(self, images):
        if self.pool_size == 0:
            return images
        out = []
        for image in images.split(1, dim=0):
            if len(self.images) < self.pool_size:
                self.images.append(image)
                out.append(image)
            elif random.uniform(0, 1) > 0.5:
                i = random.randint(0, self.pool_size - 1)
                out.append(self.images[i])
                self.images[i] = image
            else:
                out.append(image)
        return torch.cat(out, dim=0)


class ResBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(ch, ch, 3, padding=1), nn.InstanceNorm2d(ch), nn.ReLU(),
            nn.Conv2d(ch, ch, 3, padding=1))

    def forward(self, x):
        return x + self.body(x)


def generator(ch=8):
    return nn.Sequential(
        nn.Conv2d(1, ch, 3, padding=1), nn.ReLU(), ResBlock(ch),
        nn.Conv2d(ch, 1, 3, padding=1), nn.Tanh())


def discriminator(ch=8):
    return nn.Sequential(
        nn.Conv2d(1, ch, 4, 2, 1), nn.LeakyReLU(0.2),
        nn.Conv2d(ch, 2 * ch, 4, 2, 1), nn.LeakyReLU(0.2),
        nn.Conv2d(2 * ch, 1, 3, padding=1))


def gan_loss(pred, real):
    goal = torch.ones_like(pred) if real else torch.zeros_like(pred)
    return F.mse_loss(pred, goal)


def set_requires_grad(nets, flag):
    for net in nets:
        for p in net.parameters():
            p.requires_grad_(flag)


def main():
    random.seed(5)
    torch.manual_seed(5)
    data_rng = torch.Generator().manual_seed(5)
    device = torch_xla.device()

    g_ab, g_ba = generator().to(device), generator().to(device)
    d_a, d_b = discriminator().to(device), discriminator().to(device)
    opt_g = torch.optim.Adam(
        itertools.chain(g_ab.parameters(), g_ba.parameters()), lr=2e-4, betas=(0.5, 0.999))
    opt_d = torch.optim.Adam(
        itertools.chain(d_a.parameters(), d_b.parameters()), lr=2e-4, betas=(0.5, 0.999))
    pool_a, pool_b = ImagePool(15), ImagePool(15)
    torch_xla.sync()

    for step in range(STEPS):
        real_a = stripes(BATCH, data_rng).to(device)
        real_b = dots(BATCH, data_rng).to(device)

        set_requires_grad([d_a, d_b], False)
        opt_g.zero_grad()
        fake_b, fake_a = g_ab(real_a), g_ba(real_b)
        loss_adv = gan_loss(d_b(fake_b), True) + gan_loss(d_a(fake_a), True)
        loss_cyc = F.l1_loss(g_ba(fake_b), real_a) + F.l1_loss(g_ab(fake_a), real_b)
        loss_g = loss_adv + 10.0 * loss_cyc
        loss_g.backward()
        opt_g.step()
        torch_xla.sync()

        set_requires_grad([d_a, d_b], True)
        opt_d.zero_grad()
        old_a = pool_a.query(fake_a.detach())
        old_b = pool_b.query(fake_b.detach())
        loss_d = 0.5 * (gan_loss(d_a(real_a), True) + gan_loss(d_a(old_a), False))
        loss_d = loss_d + 0.5 * (gan_loss(d_b(real_b), True) + gan_loss(d_b(old_b), False))
        loss_d.backward()
        opt_d.step()
        torch_xla.sync()

        if step % 5 == 4:
            xm.master_print(
                f"step {step + 1} G {loss_g.item():.3f} D {loss_d.item():.3f} cyc {loss_cyc.item():.3f}")


if __name__ == "__main__":
    main()
