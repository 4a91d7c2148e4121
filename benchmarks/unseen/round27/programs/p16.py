# Tiny GAN on 8x8 blobs, non-saturating loss, lazy R1 and an averaged generator.
import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--iters", type=int, default=96)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--z", type=int, default=8)
    p.add_argument("--r1-gamma", type=float, default=1.5)
    p.add_argument("--r1-every", type=int, default=8)
    p.add_argument("--snapshot-every", type=int, default=24)
    p.add_argument("--ema-decay", type=float, default=0.98)
    return p.parse_args()


class Generator(nn.Module):

    def __init__(self, z, ch=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(z, ch), nn.LeakyReLU(0.2),
            nn.Linear(ch, 2 * ch), nn.LeakyReLU(0.2),
            nn.Linear(2 * ch, 64), nn.Tanh(),
        )

    def forward(self, z):
        return self.net(z).view(-1, 1, 8, 8)


class Discriminator(nn.Module):

    def __init__(self, ch=48):
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(64, ch), nn.Softplus(),
            nn.Linear(ch, ch), nn.Softplus(), nn.Linear(ch, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def real_batch(n, gen):
    c = torch.randint(2, 6, (n, 2), generator=gen).float()
    grid = torch.arange(8).float()
    dy = (grid[None] - c[:, :1]) ** 2
    dx = (grid[None] - c[:, 1:]) ** 2
    img = torch.exp(-(dy[:, :, None] + dx[:, None, :]) / 3.0)
    return (2 * img - 1).unsqueeze(1)


def toggle(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)


def d_step(G, D, opt, x, z):
    toggle(D, True)
    with torch.no_grad():
        fake = G(z)
    opt.zero_grad()
    loss = F.softplus(-D(x)).mean() + F.softplus(D(fake)).mean()
    loss.backward()
    opt.step()
    return loss.detach()


def d_reg(D, opt, x, gamma, every):
    toggle(D, True)
    x = x.detach().requires_grad_(True)
    opt.zero_grad()
    grad, = torch.autograd.grad(D(x).sum(), x, create_graph=True)
    pen = grad.pow(2).flatten(1).sum(1).mean()
    (0.5 * gamma * every * pen).backward()
    opt.step()
    return pen.detach()


def g_step(G, D, opt, z):
    toggle(D, False)
    opt.zero_grad()
    loss = F.softplus(-D(G(z))).mean()
    loss.backward()
    opt.step()
    return loss.detach()


@torch.no_grad()
def average(dst, src, decay):
    for a, b in zip(dst.parameters(), src.parameters()):
        a.lerp_(b, 1.0 - decay)


def main():
    args = get_args()
    torch.manual_seed(0)
    host_gen = torch.Generator().manual_seed(1)
    dev = xm.xla_device()
    G, D = Generator(args.z).to(dev), Discriminator().to(dev)
    G_avg = copy.deepcopy(G).requires_grad_(False)
    opt_g = torch.optim.RMSprop(G.parameters(), lr=1e-3)
    opt_d = torch.optim.RMSprop(D.parameters(), lr=1e-3)
    z_fixed = torch.randn(32, args.z, generator=host_gen).to(dev)
    torch_xla.sync()
    for it in range(1, args.iters + 1):
        x = real_batch(args.batch, host_gen).to(dev)
        z1, z2 = torch.randn(2, args.batch, args.z, generator=host_gen).to(dev).unbind(0)
        loss_d = d_step(G, D, opt_d, x, z1)
        torch_xla.sync()
        if it % args.r1_every == 0:
            pen = d_reg(D, opt_d, x, args.r1_gamma, args.r1_every)
            torch_xla.sync()
        loss_g = g_step(G, D, opt_g, z2)
        average(G_avg, G, args.ema_decay)
        torch_xla.sync()
        if it % args.snapshot_every == 0:
            with torch.no_grad():
                imgs = G_avg(z_fixed)
            torch_xla.sync()
            mass = imgs.cpu().add(1).mean()
            print(f"{it:4d} d {loss_d.item():.3f} g {loss_g.item():.3f} r1 {pen.item():.4f} mass {mass:.3f}")


if __name__ == "__main__":
    main()
