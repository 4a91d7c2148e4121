"""Tiny GAN for 16x16 sprites with differentiable augmentation of both real and fake images."""
import logging
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("gan")


@dataclass
class GANConfig:
    seed: int = 41
    size: int = 16
    latent: int = 8
    width: int = 8
    batch_size: int = 8
    steps: int = 20
    lr_g: float = 2e-4
    lr_d: float = 3e-4
    max_shift: int = 1
    brightness: float = 0.2


def sprites(n, size, seed):
    g = torch.Generator().manual_seed(seed)
    grid = torch.arange(size).float()
    cx = torch.randint(4, size - 4, (n, 1), generator=g)
    cy = torch.randint(4, size - 4, (n, 1), generator=g)
    dx = (grid[None] - cx).abs() < 3
    dy = (grid[None] - cy).abs() < 3
    return (dx[:, None, :] & dy[:, :, None]).float()[:, None] * 2 - 1


class Generator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.w = cfg.width
        self.fc = nn.Linear(cfg.latent, cfg.width * 16)
        self.up1 = nn.ConvTranspose2d(cfg.width, cfg.width, 4, 2, 1)
        self.up2 = nn.ConvTranspose2d(cfg.width, 1, 4, 2, 1)

    def forward(self, z):
        h = F.relu(self.fc(z)).view(-1, self.w, 4, 4)
        return torch.tanh(self.up2(F.relu(self.up1(h))))


class Discriminator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, cfg.width, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(cfg.width, 2 * cfg.width, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(2 * cfg.width * 16, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


class DiffAugment:
    """The same policy for real and fake in one step."""

    def __init__(self, cfg, rng):
        self.cfg, self.rng = cfg, rng
        self.shift = (0, 0)

    def resample(self):
        m = self.cfg.max_shift
        self.shift = (self.rng.randint(-m, m), self.rng.randint(-m, m))

    def brightness(self, x):
        return x + (torch.rand(x.shape[0], 1, 1, 1, device=x.device) - 0.5) * self.cfg.brightness

    def translate(self, x):
        return torch.roll(x, shifts=self.shift, dims=(2, 3))

    def __call__(self, x):
        return self.translate(self.brightness(x))


class Trainer:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        self.g, self.d = Generator(cfg).to(device), Discriminator(cfg).to(device)
        self.opt_g = torch.optim.RMSprop(self.g.parameters(), cfg.lr_g)
        self.opt_d = torch.optim.RMSprop(self.d.parameters(), cfg.lr_d)
        self.augment = DiffAugment(cfg, random.Random(cfg.seed))

    def step(self, real):
        self.augment.resample()
        z = torch.randn(real.shape[0], self.cfg.latent).to(self.device)
        fake = self.g(z)
        d_loss = (F.relu(1 - self.d(self.augment(real))) + F.relu(1 + self.d(self.augment(fake.detach())))).mean()
        self.opt_d.zero_grad()
        d_loss.backward()
        self.opt_d.step()
        g_loss = -self.d(self.augment(fake)).mean()
        self.opt_g.zero_grad()
        g_loss.backward()
        self.opt_g.step()
        torch_xla.sync()
        return d_loss.detach(), g_loss.detach()


def main():
    cfg = GANConfig()
    torch.manual_seed(cfg.seed)
    device = xm.xla_device()
    data = TensorDataset(sprites(cfg.steps * cfg.batch_size, cfg.size, cfg.seed))
    trainer = Trainer(cfg, device)
    for step, (real,) in enumerate(DataLoader(data, batch_size=cfg.batch_size, drop_last=True)):
        d_loss, g_loss = trainer.step(real.to(device))
        if (step + 1) % 5 == 0:
            log.info("step %d d %.3f g %.3f", step + 1, d_loss.item(), g_loss.item())


if __name__ == "__main__":
    main()
