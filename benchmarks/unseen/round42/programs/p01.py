"""Waveform GAN: one-dimensional style generator trained on synthetic chirps.

The two regularisers are evaluated lazily, as in StyleGAN2.
"""
import argparse
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class StyledConv(nn.Module):
    def __init__(self, cin, cout, style_dim):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, 5, padding=2)
        self.affine = nn.Linear(style_dim, cin)

    def forward(self, x, style):
        scale = self.affine(style).unsqueeze(-1) + 1.0
        return F.leaky_relu(self.conv(x * scale), 0.2)


class Generator(nn.Module):
    def __init__(self, z_dim=16, style_dim=24, width=8, length=64):
        super().__init__()
        self.mapping = nn.Sequential(
            nn.Linear(z_dim, style_dim), nn.LeakyReLU(0.2),
            nn.Linear(style_dim, style_dim), nn.LeakyReLU(0.2))
        self.start = nn.Parameter(torch.randn(1, width, length // 4))
        self.b1 = StyledConv(width, width, style_dim)
        self.b2 = StyledConv(width, width, style_dim)
        self.b3 = StyledConv(width, width, style_dim)
        self.out = nn.Conv1d(width, 1, 1)

    def synthesis(self, w):
        x = self.start.expand(w.size(0), -1, -1)
        x = self.b1(x, w)
        x = self.b2(x.repeat_interleave(2, dim=-1), w)
        x = self.b3(x.repeat_interleave(2, dim=-1), w)
        return torch.tanh(self.out(x))

    def forward(self, z):
        return self.synthesis(self.mapping(z))


class Critic(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, width, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(width, width * 2, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(width * 2, width * 2, 5, stride=2, padding=2), nn.LeakyReLU(0.2))
        self.head = nn.Linear(width * 2 * 8, 1)

    def forward(self, x):
        return self.head(self.body(x).flatten(1)).squeeze(1)


def chirps(batch, length, gen):
    t = torch.linspace(0, 1, length)
    f0 = 2 + 4 * torch.rand(batch, 1, generator=gen)
    f1 = 2 + 6 * torch.rand(batch, 1, generator=gen)
    phase = 2 * math.pi * torch.rand(batch, 1, generator=gen)
    wave = torch.sin(2 * math.pi * (f0 * t + 0.5 * f1 * t * t) + phase)
    return (0.9 * wave).unsqueeze(1)


def r1_penalty(critic, real):
    real = real.detach().requires_grad_(True)
    grad, = torch.autograd.grad(critic(real).sum(), real, create_graph=True)
    return grad.square().sum(dim=(1, 2)).mean()


def path_length(gen, z, mean_path, decay=0.01):
    w = gen.mapping(z)
    fake = gen.synthesis(w)
    noise = torch.randn_like(fake) / math.sqrt(fake.size(-1))
    grad, = torch.autograd.grad((fake * noise).sum(), w, create_graph=True)
    lengths = grad.square().sum(dim=1).add(1e-8).sqrt()
    target = mean_path + decay * (lengths.mean().detach() - mean_path)
    return (lengths - target).square().mean(), target


@torch.no_grad()
def update_ema(ema, model, beta=0.98):
    for pe, p in zip(ema.parameters(), model.parameters()):
        pe.lerp_(p, 1.0 - beta)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=48)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--d-reg-every", type=int, default=6)
    ap.add_argument("--g-reg-every", type=int, default=4)
    args = ap.parse_args()

    torch.manual_seed(11)
    data_rng = torch.Generator().manual_seed(12)
    device = torch_xla.device()
    gen, critic = Generator().to(device), Critic().to(device)
    ema = copy.deepcopy(gen).requires_grad_(False)
    opt_g = torch.optim.Adam(gen.parameters(), lr=2e-3, betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.0, 0.99))
    mean_path = torch.zeros((), device=device)
    torch_xla.sync()

    for step in range(1, args.steps + 1):
        real = chirps(args.batch, 64, data_rng).to(device)
        z = torch.randn(args.batch, 16, generator=data_rng).to(device)

        with torch.no_grad():
            fake = gen(z)
        d_loss = F.softplus(critic(fake)).mean() + F.softplus(-critic(real)).mean()
        if step % args.d_reg_every == 0:
            d_loss = d_loss + 0.5 * 2.5 * args.d_reg_every * r1_penalty(critic, real)
        opt_d.zero_grad()
        d_loss.backward()
        opt_d.step()
        torch_xla.sync()

        z = torch.randn(args.batch, 16, generator=data_rng).to(device)
        g_loss = F.softplus(-critic(gen(z))).mean()
        if step % args.g_reg_every == 0:
            penalty, mean_path = path_length(gen, z, mean_path)
            g_loss = g_loss + 2.0 * args.g_reg_every * penalty
        opt_g.zero_grad()
        g_loss.backward()
        opt_g.step()
        update_ema(ema, gen)
        torch_xla.sync()

        if step % 12 == 0:
            print(f"step {step:3d}  d {d_loss.item():.4f}  g {g_loss.item():.4f}  "
                  f"path {mean_path.item():.4f}")


if __name__ == "__main__":
    main()
