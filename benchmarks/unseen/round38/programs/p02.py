"""GAN on 2D spiral point patches: non-saturating loss, R1 every few steps, EMA generator."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 3
BATCH = 32
POINTS = 12
Z_DIM = 16
STEPS = 60
D_REG_EVERY = 8
R1_GAMMA = 2.0
SNAPSHOT_AT = (15, 30, 45, 59)


class Generator(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.mapping = nn.Sequential(nn.Linear(Z_DIM, width), nn.LeakyReLU(0.2), nn.Linear(width, width))
        self.blocks = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.styles = nn.ModuleList([nn.Linear(width, 2 * width) for _ in range(2)])
        self.const = nn.Parameter(torch.randn(1, width))
        self.out = nn.Linear(width, POINTS * 2)

    def forward(self, z):
        z = z * torch.rsqrt(z.square().mean(dim=1, keepdim=True) + 1e-8)
        w = self.mapping(z)
        h = self.const.expand(z.shape[0], -1)
        for lin, style in zip(self.blocks, self.styles):
            scale, shift = style(w).chunk(2, dim=1)
            h = F.leaky_relu(lin(h) * (1 + scale) + shift, 0.2)
        return self.out(h).view(-1, POINTS, 2)


class Discriminator(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.point = nn.Sequential(nn.Linear(2, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2))
        self.head = nn.Sequential(nn.Linear(2 * width, width), nn.LeakyReLU(0.2), nn.Linear(width, 1))

    def forward(self, x):
        h = self.point(x)
        mean = h.mean(dim=1)
        spread = ((h - mean[:, None]).square().mean(dim=1) + 1e-6).sqrt()
        pooled = torch.cat([mean, spread], dim=1)
        return self.head(pooled).squeeze(1)


def sample_real(gen):
    start = torch.rand(BATCH, 1, generator=gen) * 2 * math.pi
    t = torch.linspace(0.3, 1.0, POINTS)[None]
    ang = start + 4.0 * t
    pts = torch.stack([t * torch.cos(ang), t * torch.sin(ang)], dim=-1)
    return pts + 0.02 * torch.randn(pts.shape, generator=gen)


def ema_update(ema, model, step):
    beta = min(0.99, (1 + step) / (10 + step))
    with torch.no_grad():
        for pe, p in zip(ema.parameters(), model.parameters()):
            pe.lerp_(p, 1 - beta)


def main():
    torch.manual_seed(SEED)
    cpu_gen = torch.Generator().manual_seed(SEED)
    device = torch_xla.device()

    G = Generator().to(device)
    D = Discriminator().to(device)
    G_ema = copy.deepcopy(G).eval().requires_grad_(False)
    opt_g = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.0, 0.99))
    fixed_z = torch.randn(64, Z_DIM, generator=cpu_gen).to(device)

    for step in range(STEPS):
        real = sample_real(cpu_gen).to(device)
        z = torch.randn(BATCH, Z_DIM, generator=cpu_gen).to(device)

        D.requires_grad_(False)
        opt_g.zero_grad(set_to_none=True)
        loss_g = F.softplus(-D(G(z))).mean()
        loss_g.backward()
        opt_g.step()
        D.requires_grad_(True)
        xm.mark_step()

        opt_d.zero_grad(set_to_none=True)
        with torch.no_grad():
            fake = G(z)
        loss_d = F.softplus(D(fake)).mean() + F.softplus(-D(real)).mean()
        loss_d.backward()
        if step % D_REG_EVERY == 0:
            real_r = real.detach().requires_grad_(True)
            score = D(real_r).sum()
            (grad,) = torch.autograd.grad(score, real_r, create_graph=True)
            penalty = grad.square().sum(dim=(1, 2)).mean()
            (0.5 * R1_GAMMA * D_REG_EVERY * penalty).backward()
        opt_d.step()
        ema_update(G_ema, G, step)
        xm.mark_step()

        if step in SNAPSHOT_AT:
            with torch.no_grad():
                pts = G_ema(fixed_z)
                radius = pts.norm(dim=-1).mean()
            xm.mark_step()
            print(f"step {step:3d} G {loss_g.item():.3f} D {loss_d.item():.3f} radius {radius.item():.3f}")


if __name__ == "__main__":
    main()
