"""Adversarial generator of one-day household load curves (R1 penalty now and
then, averaged generator, a few curves drawn while training goes on)."""
import copy
import logging
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout, force=True)
log = logging.getLogger("loadgan")

HOURS, LATENT, BATCH = 24, 8, 16


def household_days(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    h = torch.arange(HOURS).float()
    morning = torch.exp(-((h - 7 - torch.randn(n, 1, generator=g)) / 1.5) ** 2)
    evening = torch.exp(-((h - 19 - torch.randn(n, 1, generator=g)) / 2.5) ** 2)
    base = 0.2 + 0.1 * torch.rand(n, 1, generator=g)
    amp = torch.rand(n, 2, generator=g) + 0.5
    return base + amp[:, :1] * morning + amp[:, 1:] * evening + 0.03 * torch.randn(n, HOURS, generator=g)


class Generator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(LATENT, width), nn.LeakyReLU(0.2),
            nn.Linear(width, width), nn.LeakyReLU(0.2), nn.Linear(width, HOURS))

    def forward(self, z):
        return F.softplus(self.net(z))


class Critic(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.conv = nn.Conv1d(1, width, 5, padding=2, padding_mode="circular")
        self.out = nn.Linear(width * HOURS, 1)

    def forward(self, x):
        return self.out(F.silu(self.conv(x.unsqueeze(1))).flatten(1)).squeeze(1)


class LoadGAN:
    critic_per_gen = 2
    r1_every = 8
    r1_gamma = 1.0
    ema_decay = 0.98

    def __init__(self, device):
        self.device = device
        self.gen = Generator().to(device)
        self.critic = Critic().to(device)
        self.ema = copy.deepcopy(self.gen).requires_grad_(False)
        self.opt_g = torch.optim.Adam(self.gen.parameters(), lr=2e-3, betas=(0.0, 0.9))
        self.opt_d = torch.optim.Adam(self.critic.parameters(), lr=2e-3, betas=(0.0, 0.9))
        self.fixed_z = torch.randn(4, LATENT).to(device)

    def noise(self):
        return torch.randn(BATCH, LATENT, device=self.device)

    def critic_step(self, real):
        with torch.no_grad():
            fake = self.gen(self.noise())
        self.opt_d.zero_grad()
        loss = F.softplus(self.critic(fake)).mean() + F.softplus(-self.critic(real)).mean()
        loss.backward()
        self.opt_d.step()
        xm.mark_step()
        return loss.detach()

    def r1_step(self, real):
        real = real.detach().requires_grad_(True)
        self.opt_d.zero_grad()
        grad, = torch.autograd.grad(self.critic(real).sum(), real, create_graph=True)
        penalty = grad.pow(2).sum(1).mean()
        (0.5 * self.r1_gamma * self.r1_every * penalty).backward()
        self.opt_d.step()
        xm.mark_step()
        return penalty.detach()

    def gen_step(self):
        self.opt_g.zero_grad()
        loss = F.softplus(-self.critic(self.gen(self.noise()))).mean()
        loss.backward()
        self.opt_g.step()
        with torch.no_grad():
            for avg, cur in zip(self.ema.parameters(), self.gen.parameters()):
                avg.lerp_(cur, 1 - self.ema_decay)
        xm.mark_step()
        return loss.detach()

    @torch.no_grad()
    def sample(self):
        return self.ema(self.fixed_z).cpu()


def main(rounds=48):
    torch.manual_seed(4)
    device = torch_xla.device()
    days = household_days(512)
    gan = LoadGAN(device)
    order = torch.Generator().manual_seed(9)
    critic_updates = 0
    for r in range(1, rounds + 1):
        for _ in range(gan.critic_per_gen):
            rows = torch.randint(0, len(days), (BATCH,), generator=order)
            real = days[rows].to(device)
            d_loss = gan.critic_step(real)
            critic_updates += 1
            if critic_updates % gan.r1_every == 0:
                gan.r1_step(real)
        g_loss = gan.gen_step()
        if r % 12 == 0:
            curves = gan.sample()
            log.info("round %d critic %.3f gen %.3f | peak hour %s mean load %.3f", r, d_loss.item(),
                     g_loss.item(), curves.argmax(1).tolist(), curves.mean().item())


if __name__ == "__main__":
    main()
