"""Small non-saturating GAN on 16x16 blobs: lazy R1, generator EMA, a preview grid now and then."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

Z = 16
BATCH = 16
ITERS = 64
R1_EVERY = 8
R1_WEIGHT = 4.0
PREVIEW_EVERY = 16


class Generator(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.ch = ch
        self.fc = nn.Linear(Z, ch * 2 * 16)
        self.c1 = nn.Conv2d(ch * 2, ch, 3, padding=1)
        self.c2 = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, z):
        h = self.fc(z).view(-1, self.ch * 2, 4, 4)
        h = F.leaky_relu(self.c1(F.interpolate(h, scale_factor=2, mode="nearest")), 0.2)
        return torch.tanh(self.c2(F.interpolate(h, scale_factor=2, mode="nearest")))


class Discriminator(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.c1 = nn.Conv2d(1, ch, 4, stride=2, padding=1)
        self.c2 = nn.Conv2d(ch, ch * 2, 4, stride=2, padding=1)
        self.fc = nn.Linear(ch * 2 * 16, 1)

    def forward(self, x):
        h = F.leaky_relu(self.c1(x), 0.2)
        h = F.leaky_relu(self.c2(h), 0.2)
        return self.fc(h.flatten(1)).squeeze(1)


def real_batches(seed=5):
    g = torch.Generator().manual_seed(seed)
    axis = torch.linspace(-1, 1, 16)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    while True:
        c = torch.rand(BATCH, 2, 1, 1, generator=g) - 0.5
        s = 0.15 + 0.2 * torch.rand(BATCH, 1, 1, generator=g)
        r2 = (xx - c[:, 0]) ** 2 + (yy - c[:, 1]) ** 2
        yield (2 * torch.exp(-r2 / (2 * s * s)) - 1).unsqueeze(1)


def set_grad(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


@torch.no_grad()
def ema_update(avg, net, decay=0.98):
    for a, p in zip(avg.parameters(), net.parameters()):
        a.lerp_(p, 1 - decay)


def r1_penalty(disc, real):
    real = real.detach().requires_grad_(True)
    score = disc(real)
    (grad,) = torch.autograd.grad(score.sum(), real, create_graph=True)
    return grad.square().sum(dim=(1, 2, 3)).mean()


def main():
    torch.manual_seed(7)
    device = torch_xla.device()
    G, D = Generator().to(device), Discriminator().to(device)
    G_ema = copy.deepcopy(G).eval()
    set_grad(G_ema, False)
    opt_g = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.0, 0.99))
    fixed_z = torch.randn(BATCH, Z).to(device)
    data = real_batches()

    for it in range(1, ITERS + 1):
        real = next(data).to(device)

        # discriminator
        set_grad(D, True)
        with torch.no_grad():
            fake = G(torch.randn(BATCH, Z, device=device))
        d_loss = F.softplus(D(fake)).mean() + F.softplus(-D(real)).mean()
        if it % R1_EVERY == 0:
            d_loss = d_loss + 0.5 * R1_WEIGHT * R1_EVERY * r1_penalty(D, real)
        opt_d.zero_grad(set_to_none=True)
        d_loss.backward()
        opt_d.step()
        torch_xla.sync()

        # generator
        set_grad(D, False)
        g_loss = F.softplus(-D(G(torch.randn(BATCH, Z, device=device)))).mean()
        opt_g.zero_grad(set_to_none=True)
        g_loss.backward()
        opt_g.step()
        ema_update(G_ema, G)
        torch_xla.sync()

        if it % PREVIEW_EVERY == 0:
            with torch.no_grad():
                grid = G_ema(fixed_z)
                margin = D(grid).mean()
            torch_xla.sync()
            img = grid.cpu().mul(0.5).add(0.5).clamp(0, 1)
            print(f"iter {it:3d}  D {d_loss.item():.3f}  G {g_loss.item():.3f}  "
                  f"preview mean {img.mean():.3f} std {img.std():.3f}  margin {margin.item():.3f}")


if __name__ == "__main__":
    main()
