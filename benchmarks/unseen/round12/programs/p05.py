"""Small convolutional GAN with lazy R1 and an averaged generator."""
import copy

import torch
from torch import nn, autograd
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def up(cin, cout):
    return nn.Sequential(nn.ConvTranspose2d(cin, cout, 4, stride=2, padding=1),
                         nn.LeakyReLU(0.2))


def down(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride=2, padding=1), nn.LeakyReLU(0.2))


class Generator(nn.Module):
    def __init__(self, z_dim=16, width=16):
        super().__init__()
        self.width = width
        self.fc = nn.Linear(z_dim, width * 16)
        self.up = nn.Sequential(up(width, width), up(width, 8))
        self.rgb = nn.Conv2d(8, 1, 1)

    def forward(self, z):
        h = self.fc(z).view(-1, self.width, 4, 4)
        return torch.tanh(self.rgb(self.up(h)))


class Discriminator(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.body = nn.Sequential(down(1, 8), down(8, width))
        self.fc = nn.Linear(width * 16, 1)

    def forward(self, x):
        return self.fc(self.body(x).flatten(1))


class GANRunner:
    r1_every = 4
    r1_gamma = 1.0
    g_every = 2
    ema_beta = 0.99

    def __init__(self, batch=16, z_dim=16):
        self.device = xm.xla_device()
        self.batch, self.z_dim = batch, z_dim
        self.G = Generator(z_dim).to(self.device)
        self.D = Discriminator().to(self.device)
        self.G_avg = copy.deepcopy(self.G).requires_grad_(False)
        self.g_opt = torch.optim.Adam(self.G.parameters(), lr=1e-3, betas=(0.0, 0.99))
        self.d_opt = torch.optim.Adam(self.D.parameters(), lr=1e-3, betas=(0.0, 0.99))

    def reals(self):
        yy, xx = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
        c = torch.rand(self.batch, 2, 1, 1) * 8 + 4
        blob = torch.exp(-((yy - c[:, :1, 0, :, None]) ** 2 + (xx - c[:, 1:, 0, :, None]) ** 2) / 8)
        return (2 * blob.view(self.batch, 1, 16, 16) - 1).to(self.device)

    def noise(self):
        return torch.randn(self.batch, self.z_dim).to(self.device)

    def d_step(self, it):
        real = self.reals()
        with torch.no_grad():
            fake = self.G(self.noise())
        regularise = it % self.r1_every == 0
        if regularise:
            real.requires_grad_(True)
        on_real = self.D(real)
        loss = F.softplus(self.D(fake)).mean() + F.softplus(-on_real).mean()
        if regularise:
            (grad,) = autograd.grad(on_real.sum(), real, create_graph=True)
            penalty = grad.pow(2).sum((1, 2, 3)).mean()
            loss = loss + 0.5 * self.r1_gamma * self.r1_every * penalty
        self.d_opt.zero_grad()
        loss.backward()
        self.d_opt.step()
        torch_xla.sync()
        return loss.detach()

    def g_step(self):
        for p in self.D.parameters():
            p.requires_grad_(False)
        loss = F.softplus(-self.D(self.G(self.noise()))).mean()
        self.g_opt.zero_grad()
        loss.backward()
        self.g_opt.step()
        with torch.no_grad():
            for avg, p in zip(self.G_avg.parameters(), self.G.parameters()):
                avg.mul_(self.ema_beta).add_(p, alpha=1 - self.ema_beta)
        torch_xla.sync()
        for p in self.D.parameters():
            p.requires_grad_(True)
        return loss.detach()

    def train(self, iters=24):
        g_loss = None
        for it in range(iters):
            d_loss = self.d_step(it)
            if it % self.g_every == 0:
                g_loss = self.g_step()
            if it % 6 == 5:
                print(f"it {it}: D {d_loss.item():.3f}  G {g_loss.item():.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    GANRunner().train()
