"""Synthetic load curves for a feeder: a WGAN with several critic steps per generator
step, a lazily applied gradient penalty and an averaged generator."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import copy
import math

import torch
import torch.nn as nn
import torch_xla

SEED = 818
HOURS = 24
NOISE = 8
BATCH = 32
ITERATIONS = 60
N_CRITIC = 3
PENALTY_EVERY = 4
PENALTY_WEIGHT = 5.0


class Feeder:
    """Household curves: base load, a morning and an evening peak, sometimes solar."""

    def __init__(self):
        self.gen = torch.Generator().manual_seed(SEED)
        self.hour = torch.arange(HOURS).float()

    def _peak(self, centre, width):
        return torch.exp(-(((self.hour - centre) / width) ** 2))

    def batch(self):
        u = torch.rand(BATCH, 6, generator=self.gen)
        load = 0.2 + 0.2 * u[:, :1]
        load = load + u[:, 1:2] * self._peak(7 + 2 * u[:, 2:3], 1.5)
        load = load + (0.5 + u[:, 3:4]) * self._peak(18 + 3 * u[:, 4:5], 2.5)
        solar = (u[:, 5:] > 0.6).float()
        return load - 0.6 * solar * self._peak(13.0, 3.0)


class Generator(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(NOISE, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, HOURS)
        )

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.conv = nn.Conv1d(1, 6, 5, padding=2, padding_mode="circular")
        self.net = nn.Sequential(nn.Linear(6 * HOURS, width), nn.LeakyReLU(0.2), nn.Linear(width, 1))

    def forward(self, x):
        h = torch.tanh(self.conv(x.unsqueeze(1)))
        return self.net(h.flatten(1)).squeeze(-1)


def gradient_penalty(critic, real, fake):
    mix = torch.rand(real.shape[0], 1, device=real.device)
    point = (mix * real + (1 - mix) * fake).requires_grad_(True)
    (grad,) = torch.autograd.grad(critic(point).sum(), point, create_graph=True)
    return ((grad.norm(2, dim=1) - 1) ** 2).mean()


@torch.no_grad()
def average(ema, model, decay):
    for slow, fast in zip(ema.parameters(), model.parameters()):
        slow.mul_(decay).add_(fast, alpha=1 - decay)


@torch.no_grad()
def peak_hour_gap(ema, feeder, device):
    sample = ema(torch.randn(BATCH, NOISE, device=device))
    real = feeder.batch().to(device)
    gap = (sample.mean(0) - real.mean(0)).abs().max()
    torch_xla.sync()
    return gap.item()


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()
    feeder = Feeder()

    gen, critic = Generator().to(device), Critic().to(device)
    ema = copy.deepcopy(gen).requires_grad_(False)
    opt_g = torch.optim.RMSprop(gen.parameters(), lr=1e-3)
    opt_c = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
    torch_xla.sync()

    for it in range(1, ITERATIONS + 1):
        real = feeder.batch().to(device)
        with torch.no_grad():
            fake = gen(torch.randn(BATCH, NOISE, device=device))
        loss_c = critic(fake).mean() - critic(real).mean()
        if it % PENALTY_EVERY == 0:
            loss_c = loss_c + PENALTY_WEIGHT * PENALTY_EVERY * gradient_penalty(critic, real, fake)
        opt_c.zero_grad()
        loss_c.backward()
        opt_c.step()
        torch_xla.sync()

        if it % N_CRITIC == 0:
            loss_g = -critic(gen(torch.randn(BATCH, NOISE, device=device))).mean()
            opt_g.zero_grad()
            loss_g.backward()
            opt_g.step()
            warm = 1 - math.exp(-it / 40)
            average(ema, gen, 0.95 * warm)
            torch_xla.sync()

        if it % 15 == 0:
            gap = peak_hour_gap(ema, feeder, device)
            print(f"iter {it:3d}  critic {loss_c.item():+.3f}  largest hourly gap {gap:.3f}")


if __name__ == "__main__":
    main()
