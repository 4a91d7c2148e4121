"""Small non-saturating GAN on 16x16 blobs: lazy R1 penalty, EMA generator."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

LATENT, SIDE, BATCH = 16, 16, 16
ITERS, R1_EVERY, R1_GAMMA, EMA = 24, 4, 2.0, 0.98


class Generator(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.fc = nn.Linear(LATENT, ch * 16)
        self.c1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.c2 = nn.Conv2d(ch, ch // 2, 3, padding=1)
        self.rgb = nn.Conv2d(ch // 2, 3, 1)

    def forward(self, z):
        x = self.fc(z).view(z.shape[0], -1, 4, 4)
        for conv in (self.c1, self.c2):
            x = x.repeat_interleave(2, 2).repeat_interleave(2, 3)
            x = F.leaky_relu(conv(x), 0.2)
        return torch.tanh(self.rgb(x))


class Discriminator(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, ch, 3, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch, ch * 2, 3, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch * 2, ch * 2, 3, 2, 1), nn.LeakyReLU(0.2))
        self.out = nn.Linear(ch * 2 * 4, 1)

    def forward(self, x):
        return self.out(self.body(x).flatten(1)).squeeze(1)


def real_batch(gen):
    c = torch.rand(BATCH, 2, 1, 1, generator=gen) * 8 + 4
    ax = torch.arange(SIDE, dtype=torch.float32)
    d = (ax.view(1, -1, 1) - c[:, 0]) ** 2 + (ax.view(1, 1, -1) - c[:, 1]) ** 2
    blob = torch.exp(-d / 8).unsqueeze(1)
    tint = torch.rand(BATCH, 3, 1, 1, generator=gen)
    return blob * tint * 2 - 1


def requires_grad(net, flag):
    for p in net.parameters():
        p.requires_grad_(flag)


def d_step(G, D, opt, real, z, with_r1):
    requires_grad(D, True)
    with torch.no_grad():
        fake = G(z)
    loss = F.softplus(D(fake)).mean() + F.softplus(-D(real)).mean()
    if with_r1:
        real = real.detach().requires_grad_(True)
        grad, = torch.autograd.grad(D(real).sum(), real, create_graph=True)
        loss = loss + 0.5 * R1_GAMMA * R1_EVERY * grad.square().sum((1, 2, 3)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.detach()


def g_step(G, D, ema, opt, z):
    requires_grad(D, False)
    loss = F.softplus(-D(G(z))).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for e, p in zip(ema.parameters(), G.parameters()):
            e.lerp_(p, 1 - EMA)
    return loss.detach()


def main():
    torch.manual_seed(16)
    gen = torch.Generator().manual_seed(16)
    device = torch_xla.device()
    G, D = Generator().to(device), Discriminator().to(device)
    ema = copy.deepcopy(G).requires_grad_(False)
    g_opt = torch.optim.Adam(G.parameters(), 2e-3, betas=(0.0, 0.99))
    d_opt = torch.optim.Adam(D.parameters(), 2e-3, betas=(0.0, 0.99))
    fixed_z = torch.randn(8, LATENT, generator=gen).to(device)
    torch_xla.sync()

    for it in range(ITERS):
        real = real_batch(gen).to(device)
        z = torch.randn(BATCH, LATENT, generator=gen).to(device)
        d_loss = d_step(G, D, d_opt, real, z, it % R1_EVERY == 0)
        torch_xla.sync()
        z = torch.randn(BATCH, LATENT, generator=gen).to(device)
        g_loss = g_step(G, D, ema, g_opt, z)
        torch_xla.sync()
        if it % 6 == 5:
            with torch.no_grad():
                spread = ema(fixed_z).std(0).mean()
            torch_xla.sync()
            print(f"it {it + 1:3d}  D {d_loss.item():.3f}  G {g_loss.item():.3f}  spread {spread.item():.3f}")


if __name__ == "__main__":
    main()
