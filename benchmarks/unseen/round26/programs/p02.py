# WGAN on 8x8 "blobs": several critic updates for each generator update, lazy R1, EMA generator for the previews
import argparse
import copy

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


def make_blobs(n, g):
    yy, xx = torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij")
    c = torch.rand(n, 2, generator=g) * 4 + 2
    s = torch.rand(n, 1, 1, generator=g) + 0.8
    d = (yy - c[:, :1, None]) ** 2 + (xx - c[:, 1:, None]) ** 2
    return (torch.exp(-d / (2 * s * s)) * 2 - 1).view(n, 64)


class Generator(nn.Module):
    def __init__(self, z_dim, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(z_dim, width), nn.LayerNorm(width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 64), nn.Tanh())

    def forward(self, z):
        return self.net(z)


class Critic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, width), nn.Softplus(), nn.Linear(width, width), nn.Softplus(), nn.Linear(width, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


@torch.no_grad()
def update_ema(ema, model, decay=0.98):
    for pe, p in zip(ema.parameters(), model.parameters()):
        pe.lerp_(p, 1 - decay)


def critic_step(critic, gen, opt, real, z, with_r1, gamma):
    opt.zero_grad(set_to_none=True)
    with torch.no_grad():
        fake = gen(z)
    loss = nn.functional.softplus(critic(fake)).mean() + nn.functional.softplus(-critic(real)).mean()
    if with_r1:
        real_r = real.detach().requires_grad_(True)
        (grad,) = torch.autograd.grad(critic(real_r).sum(), real_r, create_graph=True)
        loss = loss + 0.5 * gamma * grad.square().sum(1).mean()
    loss.backward()
    xm.optimizer_step(opt, barrier=True)
    return loss.detach()


def generator_step(critic, gen, ema, opt, z):
    opt.zero_grad(set_to_none=True)
    loss = nn.functional.softplus(-critic(gen(z))).mean()
    loss.backward()
    opt.step()
    update_ema(ema, gen)
    xm.mark_step()
    return loss.detach()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--iters", type=int, default=60)
    ap.add_argument("--n-critic", type=int, default=3)
    ap.add_argument("--r1-every", type=int, default=6)
    ap.add_argument("--bs", type=int, default=32)
    ap.add_argument("--z-dim", type=int, default=12)
    args = ap.parse_args()

    torch.manual_seed(0)
    dev = torch_xla.device()
    g = torch.Generator().manual_seed(3)
    gen, critic = Generator(args.z_dim, 48).to(dev), Critic(48).to(dev)
    ema = copy.deepcopy(gen).requires_grad_(False)
    opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.99))
    preview_z = torch.randn(16, args.z_dim, generator=g).to(dev)
    xm.mark_step()

    n_d = 0
    for it in range(1, args.iters + 1):
        for _ in range(args.n_critic):
            real = make_blobs(args.bs, g).to(dev)
            z = torch.randn(args.bs, args.z_dim, generator=g).to(dev)
            lazy = n_d % args.r1_every == 0
            d_loss = critic_step(critic, gen, opt_d, real, z, lazy, gamma=0.5 * args.r1_every)
            n_d += 1
        z = torch.randn(args.bs, args.z_dim, generator=g).to(dev)
        g_loss = generator_step(critic, gen, ema, opt_g, z)

        if it % 10 == 0:
            with torch.no_grad():
                preview = ema(preview_z)
            xm.mark_step()
            img = preview.cpu().view(16, 8, 8)
            print(f"it {it:3d} D {d_loss.item():.3f} G {g_loss.item():.3f} preview mean {img.mean():.3f} std {img.std():.3f}", flush=True)


if __name__ == "__main__":
    main()
