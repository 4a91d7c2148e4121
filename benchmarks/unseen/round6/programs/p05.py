"""Image GAN with lazy gradient penalty and an averaged generator."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

STEPS, BATCH, ZDIM = 48, 8, 16
PENALTY_EVERY, PENALTY_WEIGHT = 8, 5.0
AVERAGE_FROM, SAMPLE_EVERY = 16, 12


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(ZDIM, 32 * 4 * 4)
        self.net = nn.Sequential(
            nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.GroupNorm(4, 16), nn.ReLU(),
            nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.net(F.relu(self.fc(z)).view(-1, 32, 4, 4))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(16, 32, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(32 * 16, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


class Blobs:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)
        axis = torch.linspace(-1, 1, 16)
        self.yy, self.xx = torch.meshgrid(axis, axis, indexing="ij")

    def images(self, n):
        c = torch.rand(n, 2, 1, 1, generator=self.g) - 0.5
        r2 = (self.xx - c[:, 0]) ** 2 + (self.yy - c[:, 1]) ** 2
        return (2 * torch.exp(-8 * r2) - 1).unsqueeze(1)

    def noise(self, n):
        return torch.randn(n, ZDIM, generator=self.g)


class Gan:
    def __init__(self, device):
        self.device = device
        self.G, self.D = Generator().to(device), Discriminator().to(device)
        self.averaged = None
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=2e-4, betas=(0.5, 0.99))
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=2e-4, betas=(0.5, 0.99))

    def discriminator_step(self, real, z, with_penalty):
        with torch.no_grad():
            fake = self.G(z)
        real = real.requires_grad_(with_penalty)
        on_real = self.D(real)
        loss = F.softplus(-on_real).mean() + F.softplus(self.D(fake)).mean()
        if with_penalty:
            grad, = torch.autograd.grad(on_real.sum(), real, create_graph=True)
            loss = loss + 0.5 * PENALTY_WEIGHT * PENALTY_EVERY * grad.pow(2).sum((1, 2, 3)).mean()
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        xm.mark_step()
        return loss.detach()

    def generator_step(self, z):
        loss = F.softplus(-self.D(self.G(z))).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        xm.mark_step()
        return loss.detach()

    @torch.no_grad()
    def average(self, decay=0.95):
        if self.averaged is None:
            self.averaged = copy.deepcopy(self.G)
        else:
            for a, p in zip(self.averaged.parameters(), self.G.parameters()):
                a.lerp_(p, 1.0 - decay)
        xm.mark_step()

    @torch.no_grad()
    def sample(self, z):
        net = (self.averaged or self.G).eval()
        out = net(z)
        xm.mark_step()
        self.G.train()
        return out.cpu()


def main():
    torch.manual_seed(1)
    device = xm.xla_device()
    gan, data = Gan(device), Blobs(2)
    fixed = data.noise(BATCH).to(device)
    xm.mark_step()
    for step in range(STEPS):
        real, z = data.images(BATCH).to(device), data.noise(BATCH).to(device)
        d_loss = gan.discriminator_step(real, z, step % PENALTY_EVERY == 0)
        g_loss = gan.generator_step(data.noise(BATCH).to(device))
        if step >= AVERAGE_FROM:
            gan.average()
        if (step + 1) % SAMPLE_EVERY == 0:
            img = gan.sample(fixed)
            print(f"{step + 1}: d {d_loss.item():.3f} g {g_loss.item():.3f} contrast {img.std():.3f}")


if __name__ == "__main__":
    main()
