"""WGAN on 8x8 blobs: several critic updates per generator update, lazy gradient penalty, EMA generator."""
import copy
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    iters: int = 72
    batch: int = 16
    z_dim: int = 8
    n_critic: int = 3
    gp_every: int = 4
    gp_weight: float = 10.0
    ema: float = 0.99
    ema_start: int = 12
    image: int = 8
    lr: float = 5e-4


class Generator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.fc = nn.Linear(cfg.z_dim, 16 * 4)
        self.conv1 = nn.ConvTranspose2d(16, 8, 4, 2, 1)
        self.conv2 = nn.ConvTranspose2d(8, 1, 4, 2, 1)

    def forward(self, z):
        h = F.relu(self.fc(z)).view(-1, 16, 2, 2)
        return torch.tanh(self.conv2(F.relu(self.conv1(h))))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(8, 16, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(64, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def blobs(n, size):
    c = torch.rand(n, 2) * (size - 3) + 1
    g = torch.arange(size).float()
    d = (g[None, :, None] - c[:, 0, None, None]) ** 2 + (g[None, None, :] - c[:, 1, None, None]) ** 2
    return (2 * torch.exp(-d / 2) - 1).unsqueeze(1)


def gradient_penalty(critic, real, fake):
    a = torch.rand(real.size(0), 1, 1, 1, device=real.device)
    mixed = (a * real + (1 - a) * fake).requires_grad_(True)
    grad, = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
    return ((grad.flatten(1).norm(dim=1) - 1) ** 2).mean()


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        self.gen = Generator(cfg).to(self.device)
        self.critic = Critic().to(self.device)
        self.gen_ema = copy.deepcopy(self.gen).requires_grad_(False)
        self.opt_g = torch.optim.Adam(self.gen.parameters(), lr=cfg.lr, betas=(0.0, 0.9))
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=cfg.lr, betas=(0.0, 0.9))
        torch_xla.sync()

    def latent(self):
        return torch.randn(self.cfg.batch, self.cfg.z_dim, device=self.device)

    def critic_step(self, real, penalize):
        with torch.no_grad():
            fake = self.gen(self.latent())
        loss = self.critic(fake).mean() - self.critic(real).mean()
        if penalize:
            loss = loss + self.cfg.gp_weight * self.cfg.gp_every * gradient_penalty(self.critic, real, fake)
        self.opt_c.zero_grad()
        loss.backward()
        xm.optimizer_step(self.opt_c, barrier=True)
        return loss.detach()

    def generator_step(self, track):
        self.critic.requires_grad_(False)
        loss = -self.critic(self.gen(self.latent())).mean()
        self.opt_g.zero_grad()
        loss.backward()
        xm.optimizer_step(self.opt_g)
        self.critic.requires_grad_(True)
        if track:
            with torch.no_grad():
                for pe, p in zip(self.gen_ema.parameters(), self.gen.parameters()):
                    pe.lerp_(p, 1 - self.cfg.ema)
        torch_xla.sync()
        return loss.detach()

    def fit(self):
        cfg = self.cfg
        g_loss = None
        for it in range(cfg.iters):
            real = blobs(cfg.batch, cfg.image).to(self.device)
            c_loss = self.critic_step(real, penalize=it % cfg.gp_every == 0)
            if (it + 1) % cfg.n_critic == 0:
                g_loss = self.generator_step(track=it >= cfg.ema_start)
            if (it + 1) % 12 == 0:
                print(f"it {it + 1} critic {c_loss.item():.4f} gen {g_loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer(Config()).fit()
