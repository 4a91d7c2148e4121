"""Wasserstein-ish GAN for single-lead ECG beats with lazily applied R1 penalty."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BEAT = 64
LATENT = 16
BATCH = 16
STEPS = 48
R1_EVERY = 4
R1_GAMMA = 2.0
EMA_HALFLIFE = 20
SNAPSHOT_EVERY = 16


def real_beats(n, gen):
    t = torch.linspace(0, 1, BEAT)[None]
    shift = 0.03 * torch.randn(n, 1, generator=gen)
    amp = 1 + 0.2 * torch.randn(n, 1, generator=gen)

    def bump(center, width, height):
        return height * torch.exp(-((t - center - shift) ** 2) / (2 * width**2))

    beat = bump(0.2, 0.03, 0.15) + bump(0.36, 0.01, -0.1) + bump(0.4, 0.012, 1.0)
    beat = beat + bump(0.44, 0.012, -0.25) + bump(0.7, 0.05, 0.3)
    return (amp * beat + 0.01 * torch.randn(n, BEAT, generator=gen))[:, None]


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(LATENT, 32 * 8)
        self.up = nn.ModuleList(nn.Conv1d(c, o, 5, padding=2) for c, o in ((32, 24), (24, 16), (16, 8)))
        self.out = nn.Conv1d(8, 1, 5, padding=2)

    def forward(self, z):
        h = self.fc(z).view(-1, 32, 8)
        for conv in self.up:
            h = F.leaky_relu(conv(h.repeat_interleave(2, dim=2)), 0.2)
        return self.out(h)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        chans = (1, 8, 16, 24)
        self.convs = nn.ModuleList(
            nn.Conv1d(a, b, 5, stride=2, padding=2) for a, b in zip(chans[:-1], chans[1:])
        )
        self.fc = nn.Linear(24 * 8, 1)

    def forward(self, x):
        for conv in self.convs:
            x = F.leaky_relu(conv(x), 0.2)
        return self.fc(x.flatten(1)).squeeze(1)


def r1_penalty(critic, real):
    real = real.detach().requires_grad_(True)
    (grad,) = torch.autograd.grad(critic(real).sum(), real, create_graph=True)
    return grad.square().sum(dim=(1, 2)).mean()


@torch.no_grad()
def update_ema(ema, model, beta):
    for pe, p in zip(ema.parameters(), model.parameters()):
        pe.lerp_(p, 1 - beta)


def spectrum_gap(fake, real):
    power = lambda x: torch.fft.rfft(x.squeeze(1)).abs().mean(0)
    return (power(fake) - power(real)).abs().mean()


def main():
    torch.manual_seed(17)
    gen = torch.Generator().manual_seed(4)
    device = torch_xla.device()

    G, D = Generator().to(device), Critic().to(device)
    G_ema = copy.deepcopy(G).requires_grad_(False).eval()
    ratio = R1_EVERY / (R1_EVERY + 1)
    opt_g = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(D.parameters(), lr=2e-3 * ratio, betas=(0.0, 0.99**ratio))
    fixed_z = torch.randn(32, LATENT, generator=gen).to(device)
    reference = real_beats(32, gen)

    for step in range(STEPS):
        real = real_beats(BATCH, gen).to(device)

        D.requires_grad_(True)
        opt_d.zero_grad(set_to_none=True)
        with torch.no_grad():
            fake = G(torch.randn(BATCH, LATENT, device=device))
        d_loss = F.softplus(D(fake)).mean() + F.softplus(-D(real)).mean()
        if step % R1_EVERY == 0:
            d_loss = d_loss + 0.5 * R1_GAMMA * R1_EVERY * r1_penalty(D, real)
        d_loss.backward()
        opt_d.step()
        torch_xla.sync()

        D.requires_grad_(False)
        opt_g.zero_grad(set_to_none=True)
        g_loss = F.softplus(-D(G(torch.randn(BATCH, LATENT, device=device)))).mean()
        g_loss.backward()
        opt_g.step()
        half = min(EMA_HALFLIFE, 0.3 * step + 0.5)
        update_ema(G_ema, G, math.pow(0.5, 1.0 / half))
        torch_xla.sync()

        if (step + 1) % SNAPSHOT_EVERY == 0:
            with torch.no_grad():
                beats = G_ema(fixed_z)
            torch_xla.sync()
            gap = spectrum_gap(beats.cpu(), reference)
            print(f"step {step + 1} d {d_loss.item():.3f} g {g_loss.item():.3f} gap {gap:.3f}")


if __name__ == "__main__":
    main()
