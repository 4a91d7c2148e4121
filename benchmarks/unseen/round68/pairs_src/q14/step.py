"""Synthetic patient records: conditional tabular GAN (mixed numeric and categorical columns)."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

NUMERIC = 4
CATEGORIES = [3, 5]
WIDTH = NUMERIC + sum(CATEGORIES)


class Residual(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.fc = nn.Linear(i, o)
        self.bn = nn.BatchNorm1d(o)

    def forward(self, x):
        return torch.cat([F.relu(self.bn(self.fc(x))), x], dim=1)


class Generator(nn.Module):
    def __init__(self, z_dim, hidden=24):
        super().__init__()
        self.body = nn.Sequential(Residual(z_dim + CATEGORIES[0], hidden))
        self.out = nn.Linear(z_dim + CATEGORIES[0] + hidden, WIDTH)

    def forward(self, z, cond):
        h = self.out(self.body(torch.cat([z, cond], 1)))
        cols = [torch.tanh(h[:, :NUMERIC])]
        at = NUMERIC
        for c in CATEGORIES:
            logits = h[:, at:at + c]
            g = -torch.log(-torch.log(torch.rand_like(logits) + 1e-9) + 1e-9)
            cols.append(torch.softmax((logits + g) / 0.2, dim=1))
            at += c
        return torch.cat(cols, 1)


class Critic(nn.Module):
    def __init__(self, pac, hidden=24):
        super().__init__()
        self.pac = pac
        self.net = nn.Sequential(
            nn.Linear(pac * (WIDTH + CATEGORIES[0]), hidden), nn.LeakyReLU(0.2),
            nn.Linear(hidden, 1))

    def forward(self, rows, cond):
        x = torch.cat([rows, cond], 1)
        return self.net(x.view(-1, self.pac * x.size(1)))


def sample_rows(n, gen):
    num = torch.randn(n, NUMERIC, generator=gen).tanh()
    cats = [F.one_hot(torch.randint(0, c, (n,), generator=gen), c).float() for c in CATEGORIES]
    return torch.cat([num] + cats, 1), cats[0]


def critic_update(args, it, G, D, opt, rows, cond, device):
    z = torch.randn(rows.size(0), args.z_dim, device=device)
    with torch.no_grad():
        fake = G(z, cond)
    loss = F.softplus(D(fake, cond)).mean() + F.softplus(-D(rows, cond)).mean()
    if it % args.d_reg_every == 0:
        real = rows.detach().requires_grad_(True)
        score = D(real, cond)
        grad, = torch.autograd.grad(score.sum(), real, create_graph=True)
        r1 = grad.pow(2).sum(1).mean()
        loss = loss + args.gamma / 2 * args.d_reg_every * r1
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.detach()


def generator_update(args, G, D, opt, cond, device):
    z = torch.randn(cond.size(0), args.z_dim, device=device)
    fake = G(z, cond)
    at = NUMERIC
    match = -(cond * torch.log(fake[:, at:at + CATEGORIES[0]] + 1e-6)).sum(1).mean()
    loss = F.softplus(-D(fake, cond)).mean() + match
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    return loss.detach()


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=9)
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--z_dim", type=int, default=8)
    p.add_argument("--pac", type=int, default=2)
    p.add_argument("--gamma", type=float, default=5.0)
    p.add_argument("--d_reg_every", type=int, default=4)
    return p.parse_args()


def main():
    args = parse()
    torch.manual_seed(0)
    cpu = torch.Generator().manual_seed(1)
    device = torch_xla.device()
    G, D = Generator(args.z_dim).to(device), Critic(args.pac).to(device)
    g_opt = torch.optim.Adam(G.parameters(), lr=2e-4, betas=(0.5, 0.9))
    d_opt = torch.optim.Adam(D.parameters(), lr=2e-4, betas=(0.5, 0.9))
    xm.mark_step()
    for it in range(args.steps):
        rows, cond = sample_rows(args.batch, cpu)
        rows, cond = rows.to(device), cond.to(device)
        d_loss = critic_update(args, it, G, D, d_opt, rows, cond, device)
        g_loss = generator_update(args, G, D, g_opt, cond, device)
        xm.mark_step()
        print(it, d_loss.item(), g_loss.item(), met.counter_value("UncachedCompile") or 0)


if __name__ == "__main__":
    main()
