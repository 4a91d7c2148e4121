"""WGAN-style generator for short load profiles (24 hourly values).

Critic and generator take turns, the critic gets the R1 penalty only every
``R1_EVERY`` rounds (lazy regularisation), and the sampling copy of the generator
is an exponential moving average.
"""
import copy
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HOURS = 24
NOISE = 8
BATCH = 32
ROUNDS = 60
R1_EVERY = 4
R1_GAMMA = 2.5
EMA_DECAY = 0.98
EVAL_EVERY = 10


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(NOISE, 32), nn.SiLU(), nn.Linear(32, HOURS))

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(HOURS, 32), nn.Softplus(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def household_profiles(n, gen):
    """Morning and evening peaks of random height and position."""
    h = torch.arange(HOURS, dtype=torch.float32)
    m = 7 + torch.randn(n, 1, generator=gen)
    e = 19 + torch.randn(n, 1, generator=gen)
    a = 0.5 + torch.rand(n, 2, generator=gen)
    x = a[:, :1] * torch.exp(-(h - m) ** 2 / 4) + a[:, 1:] * torch.exp(-(h - e) ** 2 / 6)
    return x + 0.05 * torch.randn(n, HOURS, generator=gen)


def penalty(critic, real):
    real = real.detach().requires_grad_(True)
    grad, = torch.autograd.grad(critic(real).sum(), real, create_graph=True)
    return grad.pow(2).sum(1).mean()


def scatter(x):
    c = x - x.mean(0)
    return c.T @ c / len(x)


class Game:
    def __init__(self, device):
        self.device = device
        self.g = Generator().to(device)
        self.d = Critic().to(device)
        self.shadow = copy.deepcopy(self.g).requires_grad_(False)
        self.opt_g = torch.optim.RMSprop(self.g.parameters(), lr=1e-3)
        self.opt_d = torch.optim.RMSprop(self.d.parameters(), lr=2e-3)

    def critic_turn(self, real, z, regularise):
        with torch.no_grad():
            fake = self.g(z)
        loss = F.softplus(self.d(fake)).mean() + F.softplus(-self.d(real)).mean()
        if regularise:
            loss = loss + 0.5 * R1_GAMMA * R1_EVERY * penalty(self.d, real)
        self.opt_d.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_d.step()
        torch_xla.sync()
        return loss.detach()

    def generator_turn(self, z):
        self.d.requires_grad_(False)
        loss = F.softplus(-self.d(self.g(z))).mean()
        self.opt_g.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_g.step()
        self.d.requires_grad_(True)
        with torch.no_grad():
            for s, p in zip(self.shadow.parameters(), self.g.parameters()):
                s.lerp_(p, 1 - EMA_DECAY)
        torch_xla.sync()
        return loss.detach()

    @torch.no_grad()
    def moments_gap(self, reference, z):
        """Distance of mean and covariance between samples and a reference set."""
        fake = self.shadow(z)
        gap = (fake.mean(0) - reference.mean(0)).pow(2).sum()
        gap = gap + (scatter(fake) - scatter(reference)).pow(2).sum()
        torch_xla.sync()
        return gap.item()


def main():
    torch.manual_seed(17)
    gen = torch.Generator().manual_seed(17)
    device = torch_xla.device()
    game = Game(device)
    reference = household_profiles(256, gen).to(device)
    fixed_z = torch.randn(256, NOISE, generator=gen).to(device)
    torch_xla.sync()

    started = time.time()
    for rnd in range(1, ROUNDS + 1):
        real = household_profiles(BATCH, gen).to(device)
        z = torch.randn(2, BATCH, NOISE, generator=gen)
        d_loss = game.critic_turn(real, z[0].to(device), rnd % R1_EVERY == 0)
        g_loss = game.generator_turn(z[1].to(device))
        if rnd % EVAL_EVERY == 0:
            gap = game.moments_gap(reference, fixed_z)
            print(f"round {rnd:3d}  critic {d_loss.item():.3f}  generator {g_loss.item():.3f}  "
                  f"moment gap {gap:.3f}  ({time.time() - started:.1f}s)")


if __name__ == "__main__":
    main()
