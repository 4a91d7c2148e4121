"""Small GAN on procedurally drawn rings, StyleGAN2-style loop.

Non-saturating losses, R1 applied lazily every few discriminator updates,
an exponential average of the generator and a periodic sample sheet.
"""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CFG = dict(
    seed=3,
    res=16,
    z_dim=16,
    batch=16,
    steps=56,
    lr=2e-3,
    r1_gamma=1.0,
    d_reg_interval=8,
    ema_kimg=0.5,
    ema_rampup=0.05,
    snapshot=12,
)


def draw_rings(n, res, gen):
    yy, xx = torch.meshgrid(
        torch.linspace(-1, 1, res), torch.linspace(-1, 1, res), indexing="ij"
    )
    cx = torch.rand(n, 1, 1, generator=gen) * 0.8 - 0.4
    cy = torch.rand(n, 1, 1, generator=gen) * 0.8 - 0.4
    rad = torch.rand(n, 1, 1, generator=gen) * 0.3 + 0.25
    dist = ((xx - cx) ** 2 + (yy - cy) ** 2).sqrt()
    img = torch.exp(-((dist - rad) ** 2) / 0.01)
    return (img * 2 - 1).unsqueeze(1)


class Modulated(nn.Module):
    def __init__(self, c_in, c_out, w_dim):
        super().__init__()
        self.conv = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.scale = nn.Linear(w_dim, c_in)

    def forward(self, x, w):
        x = x * (1 + self.scale(w))[:, :, None, None]
        x = self.conv(x)
        x = x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6)
        return F.leaky_relu(x, 0.2)


class Generator(nn.Module):
    def __init__(self, z_dim, width=16):
        super().__init__()
        self.mapping = nn.Sequential(
            nn.Linear(z_dim, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2)
        )
        self.const = nn.Parameter(torch.randn(1, width, 4, 4))
        self.blocks = nn.ModuleList(Modulated(width, width, 32) for _ in range(3))
        self.to_img = nn.Conv2d(width, 1, 1)

    def forward(self, z):
        w = self.mapping(z)
        x = self.const.expand(z.shape[0], -1, -1, -1)
        for i, block in enumerate(self.blocks):
            if i:
                x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = block(x, w)
        return torch.tanh(self.to_img(x))


class Discriminator(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(width, width, 3, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.LeakyReLU(0.2),
        )
        self.head = nn.Linear(2 * width * 16, 1)

    def forward(self, x):
        return self.head(self.body(x).flatten(1)).squeeze(1)


def r1_penalty(D, real):
    real = real.detach().requires_grad_(True)
    (grad,) = torch.autograd.grad(D(real).sum(), real, create_graph=True)
    return grad.square().sum(dim=(1, 2, 3)).mean()


@torch.no_grad()
def update_ema(target, source, beta):
    for p_t, p_s in zip(target.parameters(), source.parameters()):
        p_t.lerp_(p_s, 1.0 - beta)


def main(c):
    torch.manual_seed(c["seed"])
    gen = torch.Generator().manual_seed(c["seed"])
    device = torch_xla.device()

    G = Generator(c["z_dim"]).to(device)
    D = Discriminator().to(device)
    G_ema = copy.deepcopy(G).eval().requires_grad_(False)
    lazy = c["d_reg_interval"] / (c["d_reg_interval"] + 1)
    g_opt = torch.optim.Adam(G.parameters(), lr=c["lr"], betas=(0.0, 0.99))
    d_opt = torch.optim.Adam(D.parameters(), lr=c["lr"] * lazy, betas=(0.0, 0.99 ** lazy))
    fixed_z = torch.randn(8, c["z_dim"], generator=gen).to(device)

    seen = 0
    for it in range(c["steps"]):
        real = draw_rings(c["batch"], c["res"], gen).to(device)
        z = torch.randn(2, c["batch"], c["z_dim"], generator=gen).to(device)

        with torch.no_grad():
            fake = G(z[0])
        d_loss = F.softplus(D(fake)).mean() + F.softplus(-D(real)).mean()
        if it % c["d_reg_interval"] == 0:
            r1 = r1_penalty(D, real)
            d_loss = d_loss + 0.5 * c["r1_gamma"] * c["d_reg_interval"] * r1
        d_opt.zero_grad()
        d_loss.backward()
        d_opt.step()

        D.requires_grad_(False)
        g_loss = F.softplus(-D(G(z[1]))).mean()
        g_opt.zero_grad()
        g_loss.backward()
        g_opt.step()
        D.requires_grad_(True)

        seen += c["batch"]
        half_life = min(c["ema_kimg"] * 1000, seen * c["ema_rampup"])
        update_ema(G_ema, G, 0.5 ** (c["batch"] / max(half_life, 1e-8)))
        torch_xla.sync()

        if (it + 1) % c["snapshot"] == 0:
            with torch.no_grad():
                contrast = G_ema(fixed_z).std(dim=0).mean().item()
            assert math.isfinite(contrast)
            print(f"it {it + 1:3d}  D {d_loss.item():.3f}  G {g_loss.item():.3f}  spread {contrast:.4f}")


if __name__ == "__main__":
    main(CFG)
