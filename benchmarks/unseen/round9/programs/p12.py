"""Unpaired image translation (CycleGAN style) on 16x16 synthetic domains."""
import itertools
import random

import torch
import torch.nn as nn
import torch_xla


class Generator(nn.Module):
    """Residual translator: predicts the change to the input."""

    def __init__(self, ch=8):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(3, ch, 3, padding=1), nn.LeakyReLU(0.2))
        self.mid = nn.Sequential(nn.Conv2d(ch, ch, 3, padding=1), nn.LeakyReLU(0.2))
        self.out = nn.Conv2d(ch, 3, 3, padding=1)

    def forward(self, x):
        h = self.enc(x)
        return torch.tanh(x + self.out(h + self.mid(h)))


class PatchDiscriminator(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, ch, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch, 2 * ch, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(2 * ch, 1, 3, padding=1))

    def forward(self, x):
        return self.net(x)


class ImagePool:
    """Buffer of previously generated images, as in Shrivastava et al."""

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
                self.images.append(image.clone())
                out.append(image)
            elif random.random() > 0.5:
                idx = random.randrange(self.pool_size)
                old = self.images[idx].clone()
                self.images[idx] = image.clone()
                out.append(old)
            else:
                out.append(image)
        return torch.cat(out, 0)


class CycleGAN:
    def __init__(self, device, lr=2e-4, lambda_cyc=10.0, pool_size=8):
        self.g_ab, self.g_ba = Generator().to(device), Generator().to(device)
        self.d_a, self.d_b = PatchDiscriminator().to(device), PatchDiscriminator().to(device)
        self.pool_a, self.pool_b = ImagePool(pool_size), ImagePool(pool_size)
        g_params = itertools.chain(self.g_ab.parameters(), self.g_ba.parameters())
        d_params = itertools.chain(self.d_a.parameters(), self.d_b.parameters())
        self.opt_g = torch.optim.Adam(g_params, lr=lr, betas=(0.5, 0.999))
        self.opt_d = torch.optim.Adam(d_params, lr=lr, betas=(0.5, 0.999))
        self.lambda_cyc = lambda_cyc
        self.mse, self.l1 = nn.MSELoss(), nn.L1Loss()

    def gan(self, pred, real):
        return self.mse(pred, torch.ones_like(pred) if real else torch.zeros_like(pred))

    def requires_grad(self, flag):
        for net in (self.d_a, self.d_b):
            net.requires_grad_(flag)

    def step(self, real_a, real_b):
        fake_b, fake_a = self.g_ab(real_a), self.g_ba(real_b)
        self.requires_grad(False)
        loss_g = self.gan(self.d_b(fake_b), True) + self.gan(self.d_a(fake_a), True)
        loss_g = loss_g + self.lambda_cyc * (self.l1(self.g_ba(fake_b), real_a) + self.l1(self.g_ab(fake_a), real_b))
        self.opt_g.zero_grad()
        loss_g.backward()
        self.opt_g.step()

        self.requires_grad(True)
        old_a, old_b = self.pool_a.query(fake_a), self.pool_b.query(fake_b)
        loss_d = 0.5 * (self.gan(self.d_a(real_a), True) + self.gan(self.d_a(old_a), False))
        loss_d = loss_d + 0.5 * (self.gan(self.d_b(real_b), True) + self.gan(self.d_b(old_b), False))
        self.opt_d.zero_grad()
        loss_d.backward()
        self.opt_d.step()
        return loss_g.detach(), loss_d.detach()


def batches(n, batch_size):
    for _ in range(n):
        a = torch.rand(batch_size, 3, 1, 1).expand(-1, -1, 16, 16) + 0.1 * torch.randn(batch_size, 3, 16, 16)
        ramp = torch.linspace(-1, 1, 16).view(1, 1, 1, 16)
        b = ramp * torch.rand(batch_size, 3, 1, 1) + 0.1 * torch.randn(batch_size, 3, 16, 16)
        yield a.clamp(-1, 1), b.clamp(-1, 1)


if __name__ == "__main__":
    torch.manual_seed(3)
    random.seed(3)
    device = torch_xla.device()
    gan = CycleGAN(device)
    for it, (a, b) in enumerate(batches(22, 2)):
        loss_g, loss_d = gan.step(a.to(device), b.to(device))
        torch_xla.sync()
        if it % 7 == 0:
            print(f"[{it:03d}] G {loss_g.item():.3f}  D {loss_d.item():.3f}")
    print(f"done  G {loss_g.item():.3f}  D {loss_d.item():.3f}")
