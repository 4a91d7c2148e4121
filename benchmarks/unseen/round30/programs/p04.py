"""GAN with lazy R1 regularization and a slow EMA generator; 1-D signal generation."""
import copy

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn, autograd
import torch_xla
import torch_xla.core.xla_model as xm

device = xm.xla_device()

Z, L, B = 8, 16, 16
R1_GAMMA, R1_EVERY = 2.0, 8
ITERS, LOG_EVERY = 96, 16


class G(nn.Module):

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(Z, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, L))

    def forward(self, z):
        return torch.tanh(self.net(z))


class D(nn.Module):

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(L, 32), nn.Softplus(), nn.Linear(32, 32), nn.Softplus(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x)


def real_batch(rng):
    ph = rng.uniform(0, 2 * np.pi, size=(B, 1))
    f = rng.choice([1.0, 2.0], size=(B, 1))
    t = np.linspace(0, 1, L)[None]
    x = 0.8 * np.sin(2 * np.pi * f * t + ph) + 0.02 * rng.randn(B, L)
    return torch.tensor(x, dtype=torch.float32).to(device)


def latent(rng):
    return torch.tensor(rng.randn(B, Z), dtype=torch.float32).to(device)


def set_grad(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)


def d_step(gen, disc, opt_d, real, z):
    set_grad(disc, True)
    set_grad(gen, False)
    fake = gen(z)
    loss = F.softplus(disc(fake)).mean() + F.softplus(-disc(real)).mean()
    opt_d.zero_grad(set_to_none=True)
    loss.backward()
    opt_d.step()
    xm.mark_step()
    return loss.detach()


def d_regularize(disc, opt_d, real):
    real = real.detach().requires_grad_(True)
    out = disc(real)
    (grad,) = autograd.grad(out.sum(), real, create_graph=True)
    r1 = grad.pow(2).sum(1).mean()
    opt_d.zero_grad(set_to_none=True)
    (0.5 * R1_GAMMA * R1_EVERY * r1).backward()
    opt_d.step()
    xm.mark_step()
    return r1.detach()


def g_step(gen, disc, opt_g, ema, z):
    set_grad(disc, False)
    set_grad(gen, True)
    loss = F.softplus(-disc(gen(z))).mean()
    opt_g.zero_grad(set_to_none=True)
    loss.backward()
    opt_g.step()
    with torch.no_grad():
        for pe, p in zip(ema.parameters(), gen.parameters()):
            pe.mul_(0.98).add_(p, alpha=0.02)
    xm.mark_step()
    return loss.detach()


def run():
    rng = np.random.RandomState(11)
    torch.manual_seed(11)
    gen, disc = G().to(device), D().to(device)
    ema = copy.deepcopy(gen)
    opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(disc.parameters(), lr=2e-3, betas=(0.0, 0.99))
    xm.mark_step()
    r1 = None
    for it in range(1, ITERS + 1):
        real = real_batch(rng)
        ld = d_step(gen, disc, opt_d, real, latent(rng))
        if it % R1_EVERY == 0:
            r1 = d_regularize(disc, opt_d, real)
        lg = g_step(gen, disc, opt_g, ema, latent(rng))
        if it % LOG_EVERY == 0:
            with torch.no_grad():
                s = ema(latent(rng))
                xm.mark_step()
            print(f"it {it:3d}  D {ld.item():.3f}  G {lg.item():.3f}  R1 {r1.item():.4f}  "
                  f"ema amplitude {s.cpu().abs().max():.3f}")


if __name__ == '__main__':
    run()
