"""Toy image GAN with non-saturating loss, R1 penalty and EMA generator."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

Z = 8
device = xm.xla_device()
torch.manual_seed(42)


class Generator(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.fc = nn.Linear(Z, ch * 16)
        self.c1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.c2 = nn.Conv2d(ch, 1, 3, padding=1)
        self.ch = ch

    def forward(self, z):
        h = F.leaky_relu(self.fc(z), 0.2).view(-1, self.ch, 4, 4)
        h = h.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
        return torch.tanh(self.c2(F.leaky_relu(self.c1(h), 0.2)))


class Discriminator(nn.Module):
    def __init__(self, ch=8):
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 4 * ch), nn.Softplus(), nn.Linear(4 * ch, 2 * ch), nn.Softplus(), nn.Linear(2 * ch, 1)
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def r1_penalty(disc, real):
    real = real.detach().requires_grad_(True)
    (grad,) = torch.autograd.grad(disc(real).sum(), real, create_graph=True)
    return grad.pow(2).flatten(1).sum(1).mean()


@torch.no_grad()
def update_ema(ema, model, decay=0.99):
    for pe, p in zip(ema.parameters(), model.parameters()):
        pe.mul_(decay).add_(p, alpha=1 - decay)


def real_images(n):
    phase = torch.rand(n, 1, 1, 1) * 6.28
    grid = torch.linspace(0, 3.14, 8).view(1, 1, 1, 8).expand(n, 1, 8, 8)
    return torch.sin(grid + phase)


def set_grad(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


def main(steps=18, batch=8, gamma=10.0, r1_every=4):
    gen, disc = Generator().to(device), Discriminator().to(device)
    gen_ema = copy.deepcopy(gen).requires_grad_(False)
    g_opt = torch.optim.Adam(gen.parameters(), lr=2e-3, betas=(0.0, 0.99))
    d_opt = torch.optim.Adam(disc.parameters(), lr=2e-3, betas=(0.0, 0.99))

    for it in range(steps):
        real = real_images(batch).to(device)
        z = torch.randn(2, batch, Z).to(device)

        # discriminator
        with torch.no_grad():
            fake = gen(z[0])
        d_loss = F.softplus(-disc(real)).mean() + F.softplus(disc(fake)).mean()
        if it % r1_every == 0:
            d_loss = d_loss + 0.5 * gamma * r1_every * r1_penalty(disc, real)
        d_opt.zero_grad()
        d_loss.backward()
        d_opt.step()

        # generator
        set_grad(disc, False)
        g_loss = F.softplus(-disc(gen(z[1]))).mean()
        g_opt.zero_grad()
        g_loss.backward()
        g_opt.step()
        set_grad(disc, True)
        update_ema(gen_ema, gen)

        torch_xla.sync()
        if it % 6 == 5:
            print(f"it {it} D {d_loss.item():.3f} G {g_loss.item():.3f}")


if __name__ == "__main__":
    main()
