"""Small convolutional GAN with lazy R1 regularisation and an EMA generator."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = dict(z_dim=16, size=16, batch=8, steps=14, lr=1e-3, r1_gamma=2.0, r1_every=4, ema=0.98, sample_every=5)


class Generator(nn.Module):
    def __init__(self, z_dim):
        super().__init__()
        self.fc = nn.Linear(z_dim, 32 * 4 * 4)
        self.c1 = nn.Conv2d(32, 16, 3, padding=1)
        self.c2 = nn.Conv2d(16, 8, 3, padding=1)
        self.out = nn.Conv2d(8, 1, 3, padding=1)

    @staticmethod
    def up(x):
        return x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)

    def forward(self, z):
        x = self.fc(z).view(-1, 32, 4, 4)
        x = F.leaky_relu(self.c1(self.up(x)), 0.2)
        x = F.leaky_relu(self.c2(self.up(x)), 0.2)
        return torch.tanh(self.out(x))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 8, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.fc = nn.Linear(16 * 4 * 4, 1)

    def forward(self, x):
        x = F.leaky_relu(self.c1(x), 0.2)
        x = F.leaky_relu(self.c2(x), 0.2)
        return self.fc(x.flatten(1)).squeeze(1)


def real_images(n, size):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    cx, cy = torch.rand(2, n, 1, 1) - 0.5
    return (torch.exp(-8 * ((xx - cx) ** 2 + (yy - cy) ** 2)) * 2 - 1).unsqueeze(1)


def d_step(G, D, opt, real, z):
    opt.zero_grad(set_to_none=True)
    with torch.no_grad():
        fake = G(z)
    loss = F.softplus(D(fake)).mean() + F.softplus(-D(real)).mean()
    loss.backward()
    opt.step()
    return loss.detach()


def r1_step(D, opt, real, gamma, every):
    opt.zero_grad(set_to_none=True)
    real = real.detach().requires_grad_(True)
    grad, = torch.autograd.grad(D(real).sum(), real, create_graph=True)
    penalty = grad.pow(2).flatten(1).sum(1).mean()
    (gamma / 2 * penalty * every).backward()
    opt.step()
    return penalty.detach()


def g_step(G, D, opt, z):
    opt.zero_grad(set_to_none=True)
    D.requires_grad_(False)
    loss = F.softplus(-D(G(z))).mean()
    loss.backward()
    D.requires_grad_(True)
    opt.step()
    return loss.detach()


@torch.no_grad()
def update_ema(ema, model, decay):
    for pe, p in zip(ema.parameters(), model.parameters()):
        pe.mul_(decay).add_(p, alpha=1 - decay)


def train(cfg):
    torch.manual_seed(0)
    device = torch_xla.device()
    G, D = Generator(cfg["z_dim"]).to(device), Discriminator().to(device)
    G_ema = copy.deepcopy(G).requires_grad_(False)
    g_opt = torch.optim.Adam(G.parameters(), lr=cfg["lr"], betas=(0.0, 0.99))
    d_opt = torch.optim.Adam(D.parameters(), lr=cfg["lr"], betas=(0.0, 0.99))
    fixed_z = torch.randn(4, cfg["z_dim"]).to(device)
    r1 = torch.zeros((), device=device)

    for it in range(cfg["steps"]):
        real = real_images(cfg["batch"], cfg["size"]).to(device)
        d_loss = d_step(G, D, d_opt, real, torch.randn(cfg["batch"], cfg["z_dim"]).to(device))
        xm.mark_step()
        if it % cfg["r1_every"] == 0:
            r1 = r1_step(D, d_opt, real, cfg["r1_gamma"], cfg["r1_every"])
            xm.mark_step()
        g_loss = g_step(G, D, g_opt, torch.randn(cfg["batch"], cfg["z_dim"]).to(device))
        update_ema(G_ema, G, cfg["ema"])
        xm.mark_step()
        if it % cfg["sample_every"] == 0:
            with torch.no_grad():
                grid = G_ema(fixed_z)
            xm.mark_step()
            print(f"it {it} d {d_loss.item():.3f} g {g_loss.item():.3f} r1 {r1.item():.4f} "
                  f"sample std {grid.cpu().std():.3f}")


if __name__ == "__main__":
    train(CFG)
