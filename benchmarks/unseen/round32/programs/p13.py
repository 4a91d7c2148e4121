"""Unpaired translation of small textures (A: stripes, B: checkers), one-directional CycleGAN style.

Least-squares GAN with a history pool for the discriminator, identity loss, linear decay.
"""
import random

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

BATCH = 3
SIZE = 16
STEPS = 32
POOL_SIZE = 12
LAMBDA_CYC = 10.0
LAMBDA_IDT = 0.5


class ImagePool:
    """Buffer of previously generated images.

    The discriminator sees a mixture of fresh fakes and fakes from a while ago, which damps
    oscillation (Shrivastava et al., 2017).
    """

    def __init__(self, pool_size):
        self.pool_size = pool_size
        self.images = []

    def query(self, images):
        if self.pool_size == 0:
            return images
        out = []
        for image in images.detach():
            image = image.unsqueeze(0)
            if len(self.images) < self.pool_size:
                self.images.append(image)
                out.append(image)
            elif random.uniform(0, 1) > 0.5:
                k = random.randint(0, self.pool_size - 1)
                out.append(self.images[k].clone())
                self.images[k] = image
            else:
                out.append(image)
        return torch.cat(out, 0)


def conv_block(cin, cout, stride=1, norm=True):
    layers = [nn.Conv2d(cin, cout, 3, stride, 1)]
    if norm:
        layers.append(nn.InstanceNorm2d(cout, affine=True))
    layers.append(nn.LeakyReLU(0.2))
    return nn.Sequential(*layers)


class Generator(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.body = nn.Sequential(
            conv_block(3, width, norm=False), nn.Conv2d(width, 3, 3, 1, 1)
        )

    def forward(self, x):
        return torch.tanh(x + self.body(x))


class PatchDiscriminator(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.body = nn.Sequential(
            conv_block(3, width, 2, norm=False),
            conv_block(width, 2 * width, 2),
            nn.Conv2d(2 * width, 1, 3, 1, 1),
        )

    def forward(self, x):
        return self.body(x)


def stripes(n, gen):
    phase = torch.rand(n, 1, 1, generator=gen) * 6.28
    x = torch.arange(SIZE).float().view(1, 1, SIZE)
    base = torch.sin(x + phase).expand(n, SIZE, SIZE)
    colour = torch.rand(n, 3, 1, 1, generator=gen) * 2 - 1
    return base[:, None] * colour


def checkers(n, gen):
    shift = torch.randint(0, 4, (n, 2, 1, 1), generator=gen)
    y = torch.arange(SIZE).view(1, SIZE, 1)
    x = torch.arange(SIZE).view(1, 1, SIZE)
    cells = ((y + shift[:, 0]) // 4 + (x + shift[:, 1]) // 4) % 2
    colour = torch.rand(n, 3, 1, 1, generator=gen) * 2 - 1
    return (cells[:, None].float() * 2 - 1) * colour


def gan_loss(pred, real):
    target = 1.0 if real else 0.0
    return (pred - target).pow(2).mean()


def main():
    random.seed(13)
    torch.manual_seed(13)
    gen = torch.Generator().manual_seed(13)
    device = torch_xla.device()

    g_ab, g_ba = Generator().to(device), Generator().to(device)
    d_b = PatchDiscriminator().to(device)
    opt_g = torch.optim.Adam(
        [*g_ab.parameters(), *g_ba.parameters()], lr=1e-3, betas=(0.5, 0.999)
    )
    opt_d = torch.optim.Adam(d_b.parameters(), lr=5e-4, betas=(0.5, 0.999))
    decay = lambda s: 1.0 - max(0, s - STEPS // 2) / (STEPS // 2 + 1)
    schedulers = [torch.optim.lr_scheduler.LambdaLR(o, decay) for o in (opt_g, opt_d)]
    pool = ImagePool(POOL_SIZE)
    l1 = nn.L1Loss()

    for step in range(STEPS):
        real_a = stripes(BATCH, gen).to(device)
        real_b = checkers(BATCH, gen).to(device)

        # generators
        d_b.requires_grad_(False)
        opt_g.zero_grad(set_to_none=True)
        fake_b = g_ab(real_a)
        loss_adv = gan_loss(d_b(fake_b), True)
        loss_cyc = l1(g_ba(fake_b), real_a)
        loss_idt = l1(g_ab(real_b), real_b)
        loss_g = loss_adv + LAMBDA_CYC * (loss_cyc + LAMBDA_IDT * loss_idt)
        loss_g.backward()
        xm.optimizer_step(opt_g)

        # discriminator
        d_b.requires_grad_(True)
        opt_d.zero_grad(set_to_none=True)
        old_b = pool.query(fake_b)
        loss_d = 0.5 * (gan_loss(d_b(real_b), True) + gan_loss(d_b(old_b), False))
        loss_d.backward()
        xm.optimizer_step(opt_d)
        torch_xla.sync()
        for s in schedulers:
            s.step()

        if (step + 1) % 8 == 0:
            print(
                f"[{step + 1}/{STEPS}] G {loss_g.item():.3f} D {loss_d.item():.3f} "
                f"lr {opt_g.param_groups[0]['lr']:.2e}"
            )


if __name__ == "__main__":
    main()
