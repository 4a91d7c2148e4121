"""Adversarial synthesis of ECG beats: 1-D GAN with lazy R1 and generator EMA.

Non-saturating losses; the R1 penalty is taken every few discriminator steps (scaled up
accordingly, as in StyleGAN2) and the generator is updated every second step.
"""
import copy
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

hp = SimpleNamespace(
    length=64, latent=12, width=12, batch=16, steps=60,
    lr_g=2e-3, lr_d=2e-3, betas=(0.0, 0.99),
    r1_gamma=2.0, d_reg_every=6, g_every=2, ema=0.95,
    sample_every=15, seed=13,
)


class Beats:
    """P-QRS-T complexes as sums of Gaussians with jittered timing and amplitude."""

    centres = torch.tensor([0.22, 0.42, 0.46, 0.50, 0.72])
    widths = torch.tensor([0.035, 0.012, 0.014, 0.014, 0.06])
    heights = torch.tensor([0.15, -0.12, 1.0, -0.25, 0.3])

    def __init__(self, n, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.n = n
        self.t = torch.linspace(0, 1, hp.length)

    def next(self):
        j = torch.randn(self.n, 5, generator=self.gen)
        c = self.centres + 0.01 * j
        h = self.heights * (1 + 0.15 * torch.randn(self.n, 5, generator=self.gen))
        g = torch.exp(-((self.t - c[..., None]) ** 2) / (2 * self.widths[:, None] ** 2))
        wander = 0.05 * torch.sin(6.28 * (self.t + torch.rand(self.n, 1, generator=self.gen)))
        return ((h[..., None] * g).sum(1) + wander).unsqueeze(1)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(hp.latent, hp.width * hp.length // 4)
        self.conv1 = nn.Conv1d(hp.width, hp.width, 5, padding=2)
        self.conv2 = nn.Conv1d(hp.width, 1, 5, padding=2)

    def forward(self, z):
        x = F.leaky_relu(self.fc(z).view(-1, hp.width, hp.length // 4), 0.2)
        x = x.repeat_interleave(2, dim=2)
        x = F.leaky_relu(self.conv1(x), 0.2).repeat_interleave(2, dim=2)
        return self.conv2(x)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv1d(1, hp.width, 5, stride=2, padding=2)
        self.conv2 = nn.Conv1d(hp.width, hp.width, 5, stride=2, padding=2)
        self.fc = nn.Linear(hp.width * hp.length // 4, 1)

    def forward(self, x):
        x = F.softplus(self.conv1(x))
        x = F.softplus(self.conv2(x))
        return self.fc(x.flatten(1)).squeeze(1)


def r1_penalty(disc, real):
    real = real.detach().requires_grad_(True)
    (grad,) = torch.autograd.grad(disc(real).sum(), real, create_graph=True)
    return grad.pow(2).sum((1, 2)).mean()


@torch.no_grad()
def update_ema(ema, model, decay):
    for a, b in zip(ema.parameters(), model.parameters()):
        a.mul_(decay).add_(b, alpha=1 - decay)


def d_step(disc, gen, opt, real, z, regularise):
    with torch.no_grad():
        fake = gen(z)
    loss = F.softplus(disc(fake)).mean() + F.softplus(-disc(real)).mean()
    total = loss
    if regularise:
        total = total + 0.5 * hp.r1_gamma * hp.d_reg_every * r1_penalty(disc, real)
    opt.zero_grad(set_to_none=True)
    total.backward()
    opt.step()
    return loss.detach()


def g_step(disc, gen, ema, opt, z):
    disc.requires_grad_(False)
    loss = F.softplus(-disc(gen(z))).mean()
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    update_ema(ema, gen, hp.ema)
    disc.requires_grad_(True)
    return loss.detach()


def main():
    torch.manual_seed(hp.seed)
    device = torch_xla.device()
    gen, disc = Generator().to(device), Discriminator().to(device)
    ema = copy.deepcopy(gen).requires_grad_(False)
    opt_g = torch.optim.Adam(gen.parameters(), lr=hp.lr_g, betas=hp.betas)
    opt_d = torch.optim.Adam(disc.parameters(), lr=hp.lr_d, betas=hp.betas)
    beats = Beats(hp.batch, hp.seed)
    probe = torch.randn(hp.batch, hp.latent, device=device)
    xm.mark_step()

    g_loss = torch.zeros((), device=device)
    for step in range(hp.steps):
        real = beats.next().to(device)
        z = torch.randn(hp.batch, hp.latent, device=device)
        d_loss = d_step(disc, gen, opt_d, real, z, regularise=step % hp.d_reg_every == 0)
        xm.mark_step()

        if step % hp.g_every == 0:
            g_loss = g_step(disc, gen, ema, opt_g, torch.randn(hp.batch, hp.latent, device=device))
            xm.mark_step()

        if (step + 1) % hp.sample_every == 0:
            with torch.no_grad():
                wave = ema(probe)
                peak = wave.amax(2).mean()
            print(f"step {step + 1} d {d_loss.item():.4f} g {g_loss.item():.4f} ema peak {peak.item():.3f}")


if __name__ == "__main__":
    main()
