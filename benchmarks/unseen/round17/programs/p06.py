"""Adversarial generator for daily rainfall curves (alternating updates)."""
import logging
import math
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F
import torch_xla

LOG = logging.getLogger("rain")

cfg = SimpleNamespace(
    days=32, latent=10, batch=40, iterations=96,
    critic_per_gen=3, penalty_every=8, penalty_weight=2.0,
    sample_every=24, lr_d=2e-3, lr_g=1e-3, betas=(0.5, 0.99),
)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.seed = nn.Linear(cfg.latent, 16 * 8)
        self.up = nn.Sequential(
            nn.ConvTranspose1d(16, 12, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.ConvTranspose1d(12, 1, 4, stride=2, padding=1))

    def forward(self, z):
        h = F.leaky_relu(self.seed(z), 0.2).view(-1, 16, 8)
        return F.softplus(self.up(h)).squeeze(1)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(1, 16, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(16, 24, 5, stride=2, padding=2), nn.LeakyReLU(0.2))
        self.out = nn.Linear(24 * (cfg.days // 4), 1)

    def forward(self, x):
        return self.out(self.conv(x.unsqueeze(1)).flatten(1)).squeeze(-1)


class Stations:
    def __init__(self, seed=0):
        self.gen = torch.Generator().manual_seed(seed)

    def batch(self):
        t = torch.arange(cfg.days) / cfg.days
        phase = torch.rand(cfg.batch, 1, generator=self.gen)
        wet = 1 + torch.sin(2 * math.pi * (t + phase))
        return (wet + 0.3 * torch.rand(cfg.batch, cfg.days, generator=self.gen)).clamp_min(0)

    def noise(self):
        return torch.randn(cfg.batch, cfg.latent, generator=self.gen)


def gradient_penalty(critic, real):
    real = real.detach().requires_grad_(True)
    score = critic(real).sum()
    grad, = torch.autograd.grad(score, real, create_graph=True)
    return grad.square().sum(-1).mean()


def critic_update(critic, gen, opt, real, z, penalise):
    opt.zero_grad()
    with torch.no_grad():
        fake = gen(z)
    loss = F.softplus(critic(fake)).mean() + F.softplus(-critic(real)).mean()
    if penalise:
        loss = loss + 0.5 * cfg.penalty_weight * cfg.penalty_every * gradient_penalty(critic, real)
    loss.backward()
    opt.step()
    torch_xla.sync()
    return loss.detach()


def generator_update(critic, gen, opt, z):
    opt.zero_grad()
    critic.requires_grad_(False)
    loss = F.softplus(-critic(gen(z))).mean()
    loss.backward()
    critic.requires_grad_(True)
    opt.step()
    torch_xla.sync()
    return loss.detach()


@torch.no_grad()
def preview(gen, z):
    curves = gen(z).cpu()
    return curves.mean().item(), curves.std(0).mean().item()


def run():
    logging.basicConfig(level=logging.INFO, format="%(levelname).1s %(name)s %(message)s")
    torch.manual_seed(0)
    device = torch_xla.device()
    gen, critic = Generator().to(device), Critic().to(device)
    opt_d = torch.optim.Adam(critic.parameters(), lr=cfg.lr_d, betas=cfg.betas)
    opt_g = torch.optim.Adam(gen.parameters(), lr=cfg.lr_g, betas=cfg.betas)
    data = Stations()
    fixed = data.noise().to(device)
    loss_g = None
    torch_xla.sync()
    for it in range(cfg.iterations):
        real, z = data.batch().to(device), data.noise().to(device)
        loss_d = critic_update(critic, gen, opt_d, real, z, it % cfg.penalty_every == 0)
        if it % cfg.critic_per_gen == cfg.critic_per_gen - 1:
            loss_g = generator_update(critic, gen, opt_g, data.noise().to(device))
        if it % 12 == 11:
            LOG.info("it %d critic %.3f generator %.3f", it, loss_d.item(), loss_g.item())
        if it % cfg.sample_every == cfg.sample_every - 1:
            LOG.info("it %d mean %.3f spread %.3f", it, *preview(gen, fixed))


if __name__ == "__main__":
    run()
