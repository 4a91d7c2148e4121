"""Wasserstein critic/generator pair for short synthetic seismograms."""
import argparse
import copy
import math

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


def ricker(n, freq, shift):
    t = torch.linspace(-1, 1, n)[None] - shift[:, None]
    a = (math.pi * freq[:, None] * t) ** 2
    return (1 - 2 * a) * torch.exp(-a)


class TraceBank:
    """Endless source of host-made traces, always the same batch shape."""

    def __init__(self, length, batch, seed):
        self.length, self.batch = length, batch
        self.gen = torch.Generator().manual_seed(seed)

    def draw(self):
        u = torch.rand(self.batch, 3, generator=self.gen)
        trace = ricker(self.length, 2 + 4 * u[:, 0], u[:, 1] - 0.5)
        trace = trace + 0.4 * ricker(self.length, 3 + 3 * u[:, 2], 0.6 * u[:, 0] - 0.1)
        return trace + 0.02 * torch.randn(trace.shape, generator=self.gen)


class Generator(nn.Module):
    def __init__(self, latent, length, width=32):
        super().__init__()
        self.width, self.seed_len = width, length // 4
        self.inp = nn.Linear(latent, width * self.seed_len)
        self.up1 = nn.ConvTranspose1d(width, width, 4, stride=2, padding=1)
        self.up2 = nn.ConvTranspose1d(width, width // 2, 4, stride=2, padding=1)
        self.out = nn.Conv1d(width // 2, 1, 5, padding=2)

    def forward(self, z):
        h = self.inp(z).view(-1, self.width, self.seed_len).relu()
        h = self.up1(h).relu()
        h = self.up2(h).relu()
        return self.out(h).squeeze(1)


class Critic(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(width, width, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
        )
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.net(x[:, None]).mean(-1)).squeeze(-1)


def gradient_penalty(critic, real, fake):
    eps = torch.rand(real.size(0), 1, device=real.device)
    mix = (eps * real + (1 - eps) * fake).requires_grad_(True)
    score = critic(mix).sum()
    (grad,) = torch.autograd.grad(score, mix, create_graph=True)
    return ((grad.square().sum(1) + 1e-8).sqrt() - 1).square().mean()


class Trainer:
    def __init__(self, args):
        self.args = args
        self.device = torch_xla.device()
        self.gen = Generator(args.latent, args.length).to(self.device)
        self.critic = Critic().to(self.device)
        self.ema = copy.deepcopy(self.gen).requires_grad_(False)
        self.opt_g = torch.optim.Adam(self.gen.parameters(), lr=args.lr, betas=(0.5, 0.9))
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=args.lr, betas=(0.5, 0.9))
        self.bank = TraceBank(args.length, args.batch, args.seed)
        self.fixed = torch.randn(8, args.latent, device=self.device)

    def noise(self):
        return torch.randn(self.args.batch, self.args.latent, device=self.device)

    def critic_step(self):
        real = self.bank.draw().to(self.device)
        with torch.no_grad():
            fake = self.gen(self.noise())
        self.opt_c.zero_grad(set_to_none=True)
        gap = self.critic(fake).mean() - self.critic(real).mean()
        loss = gap + self.args.gp * gradient_penalty(self.critic, real, fake)
        loss.backward()
        self.opt_c.step()
        xm.mark_step()
        return gap.detach()

    def generator_step(self):
        self.critic.requires_grad_(False)
        self.opt_g.zero_grad(set_to_none=True)
        loss = -self.critic(self.gen(self.noise())).mean()
        loss.backward()
        self.opt_g.step()
        self.critic.requires_grad_(True)
        with torch.no_grad():
            for slow, fast in zip(self.ema.parameters(), self.gen.parameters()):
                slow.lerp_(fast, 0.05)
        xm.mark_step()

    @torch.no_grad()
    def preview(self):
        traces = self.ema(self.fixed)
        return traces.abs().amax(1).cpu()

    def fit(self):
        for it in range(1, self.args.iters + 1):
            for _ in range(self.args.n_critic):
                gap = self.critic_step()
            self.generator_step()
            if it % self.args.sample_every == 0:
                peaks = self.preview()
                print(f"iter {it:3d}  critic gap {gap.item():+.4f}  peak amplitude {peaks.mean():.3f}")


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--latent", type=int, default=12)
    p.add_argument("--length", type=int, default=48)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--gp", type=float, default=5.0)
    p.add_argument("--n-critic", type=int, default=3)
    p.add_argument("--iters", type=int, default=30)
    p.add_argument("--sample-every", type=int, default=10)
    p.add_argument("--seed", type=int, default=3)
    return p.parse_args()


if __name__ == "__main__":
    args = parse()
    torch.manual_seed(args.seed)
    Trainer(args).fit()
