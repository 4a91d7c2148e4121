"""Small GAN on blob images: two critic updates per generator update, lazy R1, weight EMA, periodic sample grids."""
import copy
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class Options:
    z_dim = 16
    size = 12
    batch = 16
    iters = 110
    d_steps = 2
    r1_every = 8
    r1_gamma = 5.0
    ema_start = 20
    ema_decay = 0.98
    sample_every = 20
    lr_g = 1e-3
    lr_d = 2e-3


def real_batch(opt, gen):
    g = torch.linspace(-1, 1, opt.size)
    cx, cy = (torch.rand(2, opt.batch, 1, 1, generator=gen) - 0.5)
    s = 0.1 + 0.1 * torch.rand(opt.batch, 1, 1, generator=gen)
    img = torch.exp(-((g[None, None, :] - cx) ** 2 + (g[None, :, None] - cy) ** 2) / s)
    return img.unsqueeze(1) * 2 - 1


class Generator(nn.Module):
    def __init__(self, opt):
        super().__init__()
        self.fc = nn.Linear(opt.z_dim, 16 * 3 * 3)
        self.up1 = nn.ConvTranspose2d(16, 8, 4, 2, 1)
        self.up2 = nn.ConvTranspose2d(8, 1, 4, 2, 1)

    def forward(self, z):
        x = F.relu(self.fc(z)).view(-1, 16, 3, 3)
        return torch.tanh(self.up2(F.relu(self.up1(x))))


class Critic(nn.Module):
    def __init__(self, opt):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(8, 16, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(16 * 3 * 3, 1),
        )

    def forward(self, x):
        return self.net(x)


class Trainer:
    def __init__(self, opt):
        self.opt = opt
        self.device = xm.xla_device()
        self.rng = torch.Generator().manual_seed(0)
        self.G, self.D = Generator(opt).to(self.device), Critic(opt).to(self.device)
        self.G_ema = copy.deepcopy(self.G).requires_grad_(False)
        self.og = torch.optim.Adam(self.G.parameters(), lr=opt.lr_g, betas=(0.5, 0.99))
        self.od = torch.optim.Adam(self.D.parameters(), lr=opt.lr_d, betas=(0.5, 0.99))
        self.fixed_z = self.noise(9)
        torch_xla.sync()

    def noise(self, n):
        return torch.randn(n, self.opt.z_dim, generator=self.rng).to(self.device)

    def critic_step(self):
        real = real_batch(self.opt, self.rng).to(self.device)
        with torch.no_grad():
            fake = self.G(self.noise(self.opt.batch))
        loss = F.softplus(-self.D(real)).mean() + F.softplus(self.D(fake)).mean()
        self.od.zero_grad()
        loss.backward()
        self.od.step()
        torch_xla.sync()
        return loss.detach()

    def r1_step(self):
        real = real_batch(self.opt, self.rng).to(self.device).requires_grad_(True)
        grad, = torch.autograd.grad(self.D(real).sum(), real, create_graph=True)
        penalty = 0.5 * self.opt.r1_gamma * grad.square().flatten(1).sum(1).mean()
        self.od.zero_grad()
        penalty.backward()
        self.od.step()
        torch_xla.sync()

    def generator_step(self):
        loss = F.softplus(-self.D(self.G(self.noise(self.opt.batch)))).mean()
        self.og.zero_grad()
        loss.backward()
        self.og.step()
        torch_xla.sync()
        return loss.detach()

    @torch.no_grad()
    def update_ema(self):
        for e, p in zip(self.G_ema.parameters(), self.G.parameters()):
            e.lerp_(p, 1 - self.opt.ema_decay)
        torch_xla.sync()

    @torch.no_grad()
    def sample(self):
        grid = self.G_ema(self.fixed_z)
        torch_xla.sync()
        return grid.cpu()

    def run(self):
        t0 = time.time()
        for it in range(1, self.opt.iters + 1):
            for _ in range(self.opt.d_steps):
                d_loss = self.critic_step()
            if it % self.opt.r1_every == 0:
                self.r1_step()
            g_loss = self.generator_step()
            if it >= self.opt.ema_start:
                self.update_ema()
            if it % self.opt.sample_every == 0:
                img = self.sample()
                print(f"{it} d {d_loss.item():.3f} g {g_loss.item():.3f} "
                      f"sample mean {img.mean():.3f} std {img.std():.3f} ({time.time() - t0:.1f}s)")


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer(Options()).run()
