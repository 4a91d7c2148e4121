"""GAN on 2-D mixture data: non-saturating loss, lazy R1, generator EMA."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla as xla

hp = {
    "z": 8, "hidden": 48, "batch": 64, "iters": 24, "d_reg_every": 4,
    "r1_gamma": 1.0, "g_lr": 1e-3, "d_lr": 1e-3, "ema": 0.98, "log_every": 8,
}


def mlp(sizes, act):
    layers = []
    for a, b in zip(sizes[:-2], sizes[1:-1]):
        layers += [nn.Linear(a, b), act()]
    layers.append(nn.Linear(sizes[-2], sizes[-1]))
    return nn.Sequential(*layers)


def ring(n, modes=8, generator=None):
    k = torch.randint(0, modes, (n,), generator=generator)
    angle = 2 * math.pi * k / modes
    centre = torch.stack([angle.cos(), angle.sin()], -1)
    return centre + 0.05 * torch.randn(n, 2, generator=generator)


def d_step(G, D, opt, real, z):
    with torch.no_grad():
        fake = G(z)
    opt.zero_grad()
    loss = F.softplus(D(fake)).mean() + F.softplus(-D(real)).mean()
    loss.backward()
    opt.step()
    xla.sync()
    return loss.detach()


def r1_step(D, opt, real):
    real = real.detach().requires_grad_(True)
    opt.zero_grad()
    score = D(real).sum()
    (grad,) = torch.autograd.grad(score, real, create_graph=True)
    penalty = grad.square().sum(-1).mean()
    (0.5 * hp["r1_gamma"] * hp["d_reg_every"] * penalty).backward()
    opt.step()
    xla.sync()
    return penalty.detach()


def g_step(G, D, opt, z, G_ema):
    D.requires_grad_(False)
    opt.zero_grad()
    loss = F.softplus(-D(G(z))).mean()
    loss.backward()
    opt.step()
    D.requires_grad_(True)
    with torch.no_grad():
        for pe, p in zip(G_ema.parameters(), G.parameters()):
            pe.lerp_(p, 1 - hp["ema"])
    xla.sync()
    return loss.detach()


@torch.no_grad()
def coverage(G_ema, z, modes=8):
    pts = G_ema(z)
    xla.sync()
    pts = pts.cpu()
    which = (torch.atan2(pts[:, 1], pts[:, 0]) / (2 * math.pi) * modes).round().long() % modes
    good = (pts.norm(dim=-1) - 1).abs() < 0.2
    return which[good].unique().numel()


def main():
    torch.manual_seed(4)
    gen = torch.Generator().manual_seed(4)
    dev = xla.device()
    G = mlp([hp["z"], hp["hidden"], hp["hidden"], 2], nn.ReLU).to(dev)
    D = mlp([2, hp["hidden"], hp["hidden"], 1], nn.Softplus).to(dev)
    G_ema = copy.deepcopy(G).requires_grad_(False)
    opt_g = torch.optim.Adam(G.parameters(), lr=hp["g_lr"], betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(D.parameters(), lr=hp["d_lr"], betas=(0.0, 0.99))
    z_fixed = torch.randn(128, hp["z"], generator=gen).to(dev)
    r1 = None
    for it in range(hp["iters"]):
        real = ring(hp["batch"], generator=gen).to(dev)
        z = torch.randn(2, hp["batch"], hp["z"], generator=gen)
        d_loss = d_step(G, D, opt_d, real, z[0].to(dev))
        if it % hp["d_reg_every"] == 0:
            r1 = r1_step(D, opt_d, real)
        g_loss = g_step(G, D, opt_g, z[1].to(dev), G_ema)
        if it % hp["log_every"] == 0:
            n = coverage(G_ema, z_fixed)
            print(f"{it:4d} D {d_loss.item():.3f} G {g_loss.item():.3f} R1 {r1.item():.4f} modes {n}")


main()
