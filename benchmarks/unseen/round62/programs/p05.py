"""Non-saturating GAN on daily electricity load curves.

R1 on the critic and a variance-matching term on the generator are lazy: they
are applied every few iterations with a correspondingly larger weight.
"""
import copy
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

HOURS = 48
LATENT = 12
BATCH = 16
STEPS = 48
D_REG_EVERY = 8
G_REG_EVERY = 4
SNAPSHOT_EVERY = 12
R1_GAMMA = 0.4


def load_curves(n, rng):
    t = np.linspace(0, 2, HOURS, endpoint=False)
    base = rng.normal(1.0, 0.15, (n, 1))
    morning = rng.gamma(4, 0.1, (n, 1)) * np.exp(-((t % 1 - 0.33) / 0.07) ** 2)
    evening = rng.gamma(6, 0.1, (n, 1)) * np.exp(-((t % 1 - 0.80) / 0.09) ** 2)
    curves = base + morning + evening + rng.normal(0, 0.03, (n, HOURS))
    curves = (curves - curves.mean()) / curves.std()
    return torch.from_numpy(curves.astype(np.float32)).unsqueeze(1)


class Generator(nn.Module):

    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Linear(LATENT, width * (HOURS // 4))
        self.width = width
        self.c1 = nn.Conv1d(width, width, 5, padding=2)
        self.c2 = nn.Conv1d(width, width, 5, padding=2)
        self.out = nn.Conv1d(width, 1, 5, padding=2)

    def forward(self, z):
        h = self.stem(z).view(z.shape[0], self.width, -1)
        h = F.leaky_relu(self.c1(h.repeat_interleave(2, dim=2)), 0.2)
        h = F.leaky_relu(self.c2(h.repeat_interleave(2, dim=2)), 0.2)
        return self.out(h)


class Critic(nn.Module):

    def __init__(self, width=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(width * HOURS // 4, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def spread(x):
    return (x - x.mean(dim=0)).square().mean(dim=0)


def critic_step(G, D, opt, real, z, with_r1):
    with torch.no_grad():
        fake = G(z)
    if with_r1:
        real = real.detach().requires_grad_(True)
    d_real, d_fake = D(real), D(fake)
    loss = F.softplus(-d_real).mean() + F.softplus(d_fake).mean()
    if with_r1:
        (g,) = torch.autograd.grad(d_real.sum(), real, create_graph=True)
        r1 = g.square().sum(dim=(1, 2)).mean()
        loss = loss + 0.5 * R1_GAMMA * D_REG_EVERY * r1
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach()


def generator_step(G, D, opt, z, real, with_reg):
    fake = G(z)
    loss = F.softplus(-D(fake)).mean()
    if with_reg:
        gap = (spread(fake) - spread(real)).square().mean()
        loss = loss + 0.1 * G_REG_EVERY * gap
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach()


@torch.no_grad()
def update_ema(ema, model, half_life):
    decay = math.pow(0.5, 1.0 / half_life)
    for e, p in zip(ema.parameters(), model.parameters()):
        e.mul_(decay).add_(p, alpha=1 - decay)


def main():
    torch.manual_seed(11)
    rng = np.random.default_rng(11)
    device = torch_xla.device()
    data = load_curves(512, rng)
    G, D = Generator().to(device), Critic().to(device)
    G_ema = copy.deepcopy(G).eval()
    g_opt = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.0, 0.99))
    d_opt = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.0, 0.99))
    z_fixed = torch.randn(8, LATENT, device=device)
    xm.mark_step()

    for step in range(STEPS):
        real = data[torch.from_numpy(rng.integers(0, len(data), BATCH))].to(device)
        z = torch.randn(BATCH, LATENT, device=device)
        d_loss = critic_step(G, D, d_opt, real, z, step % D_REG_EVERY == 0)
        xm.mark_step()

        z = torch.randn(BATCH, LATENT, device=device)
        g_loss = generator_step(G, D, g_opt, z, real, step % G_REG_EVERY == 0)
        update_ema(G_ema, G, half_life=min(4.0 + 0.5 * step, 20.0))
        xm.mark_step()

        if step % SNAPSHOT_EVERY == 0:
            with torch.no_grad():
                curve = G_ema(z_fixed).mean(dim=(0, 1))
            xm.mark_step()
            print(f'{step:3d} d {d_loss.item():.3f} g {g_loss.item():.3f} '
                  f'peak hour {int(curve.cpu().argmax())}')


if __name__ == '__main__':
    main()
