"""GAN for short seismograms (three components), trained for event augmentation."""
import copy
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    z_dim: int = 16
    n_class: int = 4
    channels: int = 12
    length: int = 64
    batch: int = 6
    g_lr: float = 5e-4
    d_lr: float = 5e-4
    r1_gamma: float = 5.0
    d_reg_interval: int = 4
    ema_beta: float = 0.995
    steps: int = 10


class Generator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c = cfg.channels
        self.shape = (2 * c, cfg.length // 4)
        self.label = nn.Embedding(cfg.n_class, cfg.z_dim)
        self.fc = nn.Linear(cfg.z_dim, 2 * c * cfg.length // 4)
        self.up1 = nn.ConvTranspose1d(2 * c, c, 4, stride=2, padding=1)
        self.up2 = nn.ConvTranspose1d(c, 3, 4, stride=2, padding=1)

    def forward(self, z, y):
        x = F.relu(self.fc(z * self.label(y))).unflatten(1, self.shape)
        x = F.relu(self.up1(x))
        return torch.tanh(self.up2(x))


class Discriminator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c = cfg.channels
        self.conv1 = nn.Conv1d(3, c, 5, stride=2, padding=2)
        self.conv2 = nn.Conv1d(c, 2 * c, 5, stride=2, padding=2)
        self.label = nn.Embedding(cfg.n_class, 2 * c)
        self.out = nn.Linear(2 * c, 1)

    def forward(self, x, y):
        h = F.leaky_relu(self.conv1(x), 0.2)
        h = F.leaky_relu(self.conv2(h), 0.2)
        h = h.mean(-1)
        return self.out(h).squeeze(1) + (h * self.label(y)).sum(1)


class Trainer:
    def __init__(self, cfg, device):
        self.cfg = cfg
        self.device = device
        self.G = Generator(cfg).to(device)
        self.D = Discriminator(cfg).to(device)
        self.G_ema = copy.deepcopy(self.G).requires_grad_(False)
        self.g_opt = torch.optim.RMSprop(self.G.parameters(), lr=cfg.g_lr, alpha=0.99, foreach=False)
        self.d_opt = torch.optim.RMSprop(self.D.parameters(), lr=cfg.d_lr, alpha=0.99, foreach=False)

    def latent(self):
        return torch.randn(self.cfg.batch, self.cfg.z_dim).to(self.device)

    def d_step(self, real, y, step):
        cfg = self.cfg
        reg = step % cfg.d_reg_interval == 0
        with torch.no_grad():
            fake = self.G(self.latent(), y)
        real = real.detach().requires_grad_(reg)
        d_real = self.D(real, y)
        d_fake = self.D(fake, y)
        loss = F.softplus(d_fake).mean() + F.softplus(-d_real).mean()
        if reg:
            (grad,) = torch.autograd.grad(d_real.sum(), real, create_graph=True)
            r1 = grad.square().sum(dim=(1, 2)).mean()
            loss = loss + 0.5 * cfg.r1_gamma * cfg.d_reg_interval * r1
        self.d_opt.zero_grad(set_to_none=True)
        loss.backward()
        self.d_opt.step()
        return loss.detach()

    def g_step(self, y):
        self.D.requires_grad_(False)
        loss = F.softplus(-self.D(self.G(self.latent(), y), y)).mean()
        self.g_opt.zero_grad(set_to_none=True)
        loss.backward()
        self.g_opt.step()
        self.D.requires_grad_(True)
        return loss.detach()

    @torch.no_grad()
    def average(self):
        for e, p in zip(self.G_ema.parameters(), self.G.parameters()):
            e.lerp_(p, 1 - self.cfg.ema_beta)


def waveforms(cfg, gen):
    t = torch.linspace(0, 1, cfg.length)
    f = 4 + 12 * torch.rand(cfg.batch, 3, 1, generator=gen)
    y = torch.randint(0, cfg.n_class, (cfg.batch,), generator=gen)
    return torch.sin(6.283 * f * t) * torch.exp(-3 * t), y


def main():
    cfg = Config()
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(6)
    device = torch_xla.device()
    tr = Trainer(cfg, device)
    torch_xla.sync()
    for step in range(cfg.steps):
        real, y = waveforms(cfg, gen)
        real, y = real.to(device), y.to(device)
        d_loss = tr.d_step(real, y, step)
        g_loss = tr.g_step(y)
        tr.average()
        torch_xla.sync()
        if step % 5 == 4:
            print(step, d_loss.item(), g_loss.item())


if __name__ == "__main__":
    main()
