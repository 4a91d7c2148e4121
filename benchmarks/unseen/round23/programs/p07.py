# WGAN on 2-D rings: several critic steps per generator step, lazy gradient penalty
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch_xla

ap = argparse.ArgumentParser()
ap.add_argument("--iters", type=int, default=60)
ap.add_argument("--n-critic", type=int, default=4)
ap.add_argument("--gp-every", type=int, default=8)
ap.add_argument("--gp-weight", type=float, default=5.0)
ap.add_argument("--batch", type=int, default=32)
ap.add_argument("--z", type=int, default=6)
ap.add_argument("--ema", type=float, default=0.99)
ap.add_argument("--snapshot-every", type=int, default=10)
ap.add_argument("--lr", type=float, default=2e-3)
opt = ap.parse_args([])


def ring(n, rng):
    k = rng.integers(0, 8, n) * 2 * np.pi / 8
    pts = np.stack([np.cos(k), np.sin(k)], 1) + 0.05 * rng.standard_normal((n, 2))
    return torch.tensor(pts, dtype=torch.float32)


def net(i, h, o):
    return nn.Sequential(nn.Linear(i, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, o))


def penalty(critic, real, fake):
    u = torch.rand(real.shape[0], 1, device=real.device)
    mid = (u * real + (1 - u) * fake).requires_grad_(True)
    g, = torch.autograd.grad(critic(mid).sum(), mid, create_graph=True)
    return ((g.pow(2).sum(1) + 1e-8).sqrt() - 1).pow(2).mean()


def main():
    torch.manual_seed(5)
    rng = np.random.default_rng(5)
    device = torch_xla.device()
    gen, critic = net(opt.z, 24, 2).to(device), net(2, 24, 1).to(device)
    gen_ema = net(opt.z, 24, 2).to(device)
    gen_ema.load_state_dict(gen.state_dict())
    g_opt = torch.optim.RMSprop(gen.parameters(), lr=opt.lr)
    c_opt = torch.optim.RMSprop(critic.parameters(), lr=opt.lr)
    fixed = torch.randn(64, opt.z).to(device)
    torch_xla.sync()

    c_step = 0
    for it in range(1, opt.iters + 1):
        for p in critic.parameters():
            p.requires_grad_(True)
        for _ in range(opt.n_critic):
            with torch_xla.step():
                real = ring(opt.batch, rng).to(device)
                with torch.no_grad():
                    fake = gen(torch.randn(opt.batch, opt.z, device=device))
                c_loss = critic(fake).mean() - critic(real).mean()
                if c_step % opt.gp_every == 0:
                    c_loss = c_loss + opt.gp_weight * penalty(critic, real, fake)
                c_opt.zero_grad(set_to_none=True)
                c_loss.backward()
                c_opt.step()
            c_step += 1

        for p in critic.parameters():
            p.requires_grad_(False)
        with torch_xla.step():
            g_loss = -critic(gen(torch.randn(opt.batch, opt.z, device=device))).mean()
            g_opt.zero_grad(set_to_none=True)
            g_loss.backward()
            g_opt.step()
            with torch.no_grad():
                for a, p in zip(gen_ema.parameters(), gen.parameters()):
                    a.mul_(opt.ema).add_(p, alpha=1 - opt.ema)

        if it % opt.snapshot_every == 0:
            with torch.no_grad():
                pts = gen_ema(fixed)
            torch_xla.sync()
            pts = pts.cpu().numpy()
            r = np.hypot(pts[:, 0], pts[:, 1])
            print(f"it {it} critic {c_loss.item():+.3f} gen {g_loss.item():+.3f} radius {r.mean():.3f}±{r.std():.3f}")


if __name__ == "__main__":
    main()
