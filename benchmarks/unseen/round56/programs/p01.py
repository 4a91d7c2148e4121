"""GAN for heartbeat waveforms (1-D), non-saturating loss, lazy R1 and lazy latent consistency as in StyleGAN2."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

LENGTH = 64
Z_DIM = 8


def snap(*modules):
    return nn.Sequential(*modules)


class Generator(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.mapping = snap(nn.Linear(Z_DIM, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2))
        self.start = nn.Linear(32, ch * 8)
        self.convs = nn.ModuleList(nn.Conv1d(ch, ch, 5, padding=2) for _ in range(3))
        self.styles = nn.ModuleList(nn.Linear(32, ch) for _ in range(3))
        self.out = nn.Conv1d(ch, 1, 5, padding=2)
        self.ch = ch

    def forward(self, z):
        w = self.mapping(z)
        x = self.start(w).view(-1, self.ch, 8)
        for conv, style in zip(self.convs, self.styles):
            x = x.repeat_interleave(2, dim=2)
            x = F.leaky_relu(conv(x) * (1.0 + style(w))[:, :, None], 0.2)
        return self.out(x)


class Discriminator(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.net = snap(
            nn.Conv1d(1, ch, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(ch, ch, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(ch, ch, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(ch * LENGTH // 8, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


class Beats:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.t = torch.linspace(0, 1, LENGTH)

    def draw(self, n):
        def u(lo, hi):
            return lo + (hi - lo) * torch.rand(n, 1, generator=self.g)

        def bump(center, width, height):
            return height * torch.exp(-0.5 * ((self.t[None] - center) / width) ** 2)

        r = u(0.35, 0.5)
        beat = bump(r - 0.15, 0.03, u(0.1, 0.2)) + bump(r, 0.012, u(0.8, 1.2)) - bump(r + 0.03, 0.015, u(0.1, 0.3))
        beat = beat + bump(r + 0.25, 0.05, u(0.2, 0.35))
        return (beat + 0.01 * torch.randn(n, LENGTH, generator=self.g))[:, None]


class Trainer:
    def __init__(self, device, r1_every=8, r1_gamma=2.0, reg_every=4, ema_halflife=12):
        self.device = device
        self.G, self.D = Generator().to(device), Discriminator().to(device)
        self.G_ema = copy.deepcopy(self.G).requires_grad_(False)
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=2e-3, betas=(0.0, 0.99))
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=2e-3, betas=(0.0, 0.99))
        self.r1_every, self.r1_gamma, self.reg_every = r1_every, r1_gamma, reg_every
        self.ema = 0.5 ** (1.0 / ema_halflife)

    def noise(self, n):
        return torch.randn(n, Z_DIM, device=self.device)

    def discriminator_step(self, real, step):
        with torch.no_grad():
            fake = self.G(self.noise(len(real)))
        regularize = step % self.r1_every == 0
        real = real.requires_grad_(regularize)
        score = self.D(real)
        loss = F.softplus(self.D(fake)).mean() + F.softplus(-score).mean()
        if regularize:
            grad, = torch.autograd.grad(score.sum(), real, create_graph=True)
            penalty = grad.pow(2).sum((1, 2)).mean()
            loss = loss + 0.5 * self.r1_gamma * self.r1_every * penalty
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        return loss.detach()

    def generator_step(self, n, step):
        z = self.noise(n)
        fake = self.G(z)
        loss = F.softplus(-self.D(fake)).mean()
        if step % self.reg_every == 0:
            near = self.G(z + 0.05 * torch.randn_like(z))
            loss = loss + 0.1 * self.reg_every * (near - fake).pow(2).mean() / 0.05 ** 2
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        with torch.no_grad():
            for a, b in zip(self.G_ema.parameters(), self.G.parameters()):
                a.lerp_(b, 1.0 - self.ema)
        return loss.detach()


def main(steps=64, batch=8):
    torch.manual_seed(1)
    device = torch_xla.device()
    beats = Beats(seed=6)
    trainer = Trainer(device)
    fixed = trainer.noise(16)
    reference = beats.draw(256).mean(0).squeeze(0)
    for step in range(steps):
        real = beats.draw(batch).to(device)
        d = trainer.discriminator_step(real, step)
        g = trainer.generator_step(batch, step)
        torch_xla.sync()
        if step % 16 == 15:
            with torch.no_grad():
                samples = trainer.G_ema(fixed).cpu()
            gap = (samples.mean((0, 1)) - reference).abs().mean().item()
            print(f"step {step:3d}  D {d.item():.3f}  G {g.item():.3f}  mean-beat gap {gap:.3f}")
            assert math.isfinite(gap)


if __name__ == "__main__":
    main()
