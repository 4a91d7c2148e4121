"""Tabular GAN (WGAN-GP, packed critic) for mixed continuous / one-hot records."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--iterations", type=int, default=36)
    p.add_argument("--n-critic", type=int, default=5)
    p.add_argument("--batch", type=int, default=40)
    p.add_argument("--latent", type=int, default=16)
    p.add_argument("--hidden", type=int, default=48)
    p.add_argument("--pac", type=int, default=4)
    p.add_argument("--gp", type=float, default=10.0)
    p.add_argument("--lr", type=float, default=2e-4)
    p.add_argument("--log-every", type=int, default=12)
    return p.parse_args()


# (kind, width) of the columns of one record
COLUMNS = [("cont", 1), ("cat", 5), ("cont", 1), ("cat", 3), ("cat", 2), ("cont", 1)]
WIDTH = sum(w for _, w in COLUMNS)


class Residual(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.fc = nn.Linear(cin, cout)
        self.norm = nn.LayerNorm(cout)

    def forward(self, x):
        return torch.cat([F.relu(self.norm(self.fc(x))), x], dim=1)


class Generator(nn.Module):
    def __init__(self, latent, hidden):
        super().__init__()
        self.body = nn.Sequential(Residual(latent, hidden), Residual(latent + hidden, hidden))
        self.out = nn.Linear(latent + 2 * hidden, WIDTH)

    def forward(self, z, tau=0.2):
        parts, h, at = [], self.out(self.body(z)), 0
        for kind, width in COLUMNS:
            piece = h[:, at:at + width]
            if kind == "cont":
                parts.append(torch.tanh(piece))
            else:
                u = torch.rand_like(piece).clamp(1e-6, 1.0 - 1e-6)
                parts.append(((piece - (-u.log()).log()) / tau).softmax(-1))
            at += width
        return torch.cat(parts, dim=1)


class Critic(nn.Module):
    def __init__(self, hidden, pac, p=0.25):
        super().__init__()
        self.pac = pac
        self.net = nn.Sequential(
            nn.Linear(WIDTH * pac, hidden), nn.LeakyReLU(0.2), nn.Dropout(p),
            nn.Linear(hidden, hidden), nn.LeakyReLU(0.2), nn.Dropout(p),
            nn.Linear(hidden, 1))

    def forward(self, x):
        return self.net(x.reshape(-1, WIDTH * self.pac))

    def penalty(self, real, fake):
        groups = real.shape[0] // self.pac
        eps = torch.rand(groups, 1, 1, device=real.device).expand(-1, self.pac, WIDTH).reshape(-1, WIDTH)
        mix = (eps * real + (1.0 - eps) * fake).requires_grad_(True)
        grad, = torch.autograd.grad(self(mix).sum(), mix, create_graph=True)
        norm = grad.reshape(groups, -1).norm(2, dim=1)
        return (norm - 1.0).pow(2).mean()


class Records:
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        state = rng.integers(0, 3, n)
        cols = []
        for i, (kind, width) in enumerate(COLUMNS):
            if kind == "cont":
                cols.append(np.clip(rng.normal(0.4 * (state - 1), 0.2), -1, 1)[:, None])
            else:
                cols.append(np.eye(width)[(state + rng.integers(0, 2, n)) % width])
        self.table = np.concatenate(cols, axis=1).astype(np.float32)
        self.rng = rng

    def batch(self, n):
        return torch.from_numpy(self.table[self.rng.integers(0, len(self.table), n)])


def critic_step(critic, gen, opt, real, args):
    z = torch.randn(real.shape[0], args.latent, device=real.device)
    with torch.no_grad():
        fake = gen(z)
    wass = critic(real).mean() - critic(fake).mean()
    loss = args.gp * critic.penalty(real, fake) - wass
    opt.zero_grad()
    loss.backward()
    opt.step()
    return wass.detach()


def generator_step(critic, gen, opt, args, device):
    z = torch.randn(args.batch, args.latent, device=device)
    loss = -critic(gen(z)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach()


def main():
    args = parse()
    torch.manual_seed(0)
    device = torch_xla.device()
    data = Records(4000, 0)
    gen = Generator(args.latent, args.hidden).to(device)
    critic = Critic(args.hidden, args.pac).to(device)
    opt_g = torch.optim.Adam(gen.parameters(), lr=args.lr, betas=(0.5, 0.9), weight_decay=1e-6)
    opt_c = torch.optim.Adam(critic.parameters(), lr=args.lr, betas=(0.5, 0.9))

    for it in range(args.iterations):
        for _ in range(args.n_critic):
            real = data.batch(args.batch).to(device)
            wass = critic_step(critic, gen, opt_c, real, args)
            torch_xla.sync()
        g_loss = generator_step(critic, gen, opt_g, args, device)
        torch_xla.sync()
        if (it + 1) % args.log_every == 0:
            print(f"{it + 1:4d} wasserstein {wass.item():.4f} generator {g_loss.item():.4f}")


if __name__ == "__main__":
    main()
