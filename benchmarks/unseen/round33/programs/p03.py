"""Glyph GAN with several critic updates per generator update, lazy R1 and an EMA generator."""
import argparse
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=48)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--z-dim", type=int, default=16)
    p.add_argument("--d-per-g", type=int, default=3)
    p.add_argument("--r1-every", type=int, default=8)
    p.add_argument("--r1-gamma", type=float, default=1.0)
    p.add_argument("--ema", type=float, default=0.99)
    p.add_argument("--seed", type=int, default=29)
    return p.parse_args()


class Generator(nn.Module):
    def __init__(self, z_dim, size=12, width=96):
        super().__init__()
        self.size = size
        self.net = nn.Sequential(
            nn.Linear(z_dim, width), nn.LeakyReLU(0.2),
            nn.Linear(width, width), nn.LeakyReLU(0.2),
            nn.Linear(width, size * size), nn.Tanh(),
        )

    def forward(self, z):
        z = z * torch.rsqrt(z.square().mean(1, keepdim=True) + 1e-8)
        return self.net(z).view(-1, 1, self.size, self.size)


class Critic(nn.Module):
    def __init__(self, size=12, width=96):
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(),
            nn.Linear(size * size, width), nn.Softplus(),
            nn.Linear(width, width), nn.Softplus(),
            nn.Linear(width, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def glyphs(rng, n, size=12):
    """Small strokes: a bar, a ring or a cross at a jittered place."""
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32)
    out = np.empty((n, 1, size, size), np.float32)
    for i in range(n):
        cy, cx = rng.uniform(3.5, 7.5, 2)
        kind = rng.integers(3)
        if kind == 0:
            d = np.abs(xx - cx)
        elif kind == 1:
            d = np.abs(np.hypot(yy - cy, xx - cx) - 3.0)
        else:
            d = np.minimum(np.abs(xx - cx), np.abs(yy - cy))
        out[i, 0] = np.exp(-d ** 2 / 0.8) * 2 - 1
    return out


class Trainer:
    def __init__(self, args, device):
        self.args, self.device = args, device
        self.g = Generator(args.z_dim).to(device)
        self.d = Critic().to(device)
        self.g_ema = copy.deepcopy(self.g).requires_grad_(False)
        self.g_opt = torch.optim.Adam(self.g.parameters(), lr=2e-3, betas=(0.0, 0.99))
        ratio = args.r1_every / (args.r1_every + 1)
        self.d_opt = torch.optim.Adam(self.d.parameters(), lr=2e-3 * ratio, betas=(0.0, 0.99 ** ratio))

    def noise(self):
        return torch.randn(self.args.batch, self.args.z_dim, device=self.device)

    def critic_step(self, real):
        with torch.no_grad():
            fake = self.g(self.noise())
        loss = F.softplus(self.d(fake)).mean() + F.softplus(-self.d(real)).mean()
        self.d_opt.zero_grad(set_to_none=True)
        loss.backward()
        xm.optimizer_step(self.d_opt, barrier=True)
        return loss.detach()

    def r1_step(self, real):
        real = real.detach().requires_grad_(True)
        (grad,) = torch.autograd.grad(self.d(real).sum(), real, create_graph=True)
        penalty = grad.square().sum(dim=(1, 2, 3)).mean()
        self.d_opt.zero_grad(set_to_none=True)
        (0.5 * self.args.r1_gamma * self.args.r1_every * penalty).backward()
        xm.optimizer_step(self.d_opt, barrier=True)
        return penalty.detach()

    def generator_step(self):
        self.d.requires_grad_(False)
        loss = F.softplus(-self.d(self.g(self.noise()))).mean()
        self.g_opt.zero_grad(set_to_none=True)
        loss.backward()
        self.d.requires_grad_(True)
        self.g_opt.step()
        with torch.no_grad():
            for pe, p in zip(self.g_ema.parameters(), self.g.parameters()):
                pe.lerp_(p, 1 - self.args.ema)
        torch_xla.sync()
        return loss.detach()

    @torch.no_grad()
    def preview(self):
        sheet = self.g_ema(self.noise())
        ink = (sheet > 0).float().mean()
        torch_xla.sync()
        return ink


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    device = torch_xla.device()
    xm.set_rng_state(args.seed)
    tr = Trainer(args, device)
    g_loss = r1 = torch.zeros((), device=device)
    torch_xla.sync()

    for it in range(args.iters):
        real = torch.from_numpy(glyphs(rng, args.batch)).to(device)
        d_loss = tr.critic_step(real)
        if it % args.r1_every == 0:
            r1 = tr.r1_step(real)
        if (it + 1) % args.d_per_g == 0:
            g_loss = tr.generator_step()
        if (it + 1) % 12 == 0:
            ink = tr.preview()
            print(f"iter {it + 1} d {d_loss.item():.3f} g {g_loss.item():.3f} r1 {r1.item():.4f} "
                  f"ink {ink.item():.3f}")


if __name__ == "__main__":
    main()
