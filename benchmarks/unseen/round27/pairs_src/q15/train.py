"""Toy image GAN. Non-saturating loss, R1 on the discriminator, EMA of the generator."""
import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
import torch_xla
from torch import nn


@dataclass
class Config:
    img: int = 8
    z_dim: int = 10
    hidden: int = 32
    batch: int = 12
    iters: int = 6
    lr: float = 2e-3
    r1_gamma: float = 5.0
    d_reg_every: int = 4
    ema: float = 0.995


def mlp(sizes, last=None):
    layers = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        layers.append(nn.Linear(a, b))
        if i < len(sizes) - 2:
            layers.append(nn.LeakyReLU(0.2))
    if last is not None:
        layers.append(last)
    return nn.Sequential(*layers)


class GANTrainer:

    def __init__(self, cfg: Config):
        self.cfg = cfg
        self.device = torch_xla.device()
        pix = cfg.img ** 2
        self.G = mlp([cfg.z_dim, cfg.hidden, pix], nn.Tanh()).to(self.device)
        self.D = mlp([pix, cfg.hidden, 1]).to(self.device)
        self.G_ema = copy.deepcopy(self.G).requires_grad_(False)
        kw = dict(lr=cfg.lr, alpha=0.9, eps=1e-8)
        self.opt_g = torch.optim.RMSprop(self.G.parameters(), **kw)
        self.opt_d = torch.optim.RMSprop(self.D.parameters(), **kw)
        self.it = 0

    def noise(self):
        return torch.randn(self.cfg.batch, self.cfg.z_dim).to(self.device)

    def r1(self, real, logits):
        (g,) = torch.autograd.grad(logits.sum(), real, create_graph=True)
        return g.square().sum(1).mean()

    def d_step(self, real):
        cfg = self.cfg
        regularize = (self.it + 1) % cfg.d_reg_every == 0
        real = real.detach().requires_grad_(regularize)
        with torch.no_grad():
            fake = self.G(self.noise())
        real_logits = self.D(real)
        loss = F.softplus(self.D(fake)).mean() + F.softplus(-real_logits).mean()
        total = loss
        if regularize:
            total = total + 0.5 * cfg.r1_gamma * cfg.d_reg_every * self.r1(real, real_logits)
        self.opt_d.zero_grad(set_to_none=True)
        total.backward()
        self.opt_d.step()
        return loss.detach()

    def g_step(self):
        self.D.requires_grad_(False)
        loss = F.softplus(-self.D(self.G(self.noise()))).mean()
        self.opt_g.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_g.step()
        self.D.requires_grad_(True)
        return loss.detach()

    @torch.no_grad()
    def update_ema(self):
        for avg, p in zip(self.G_ema.parameters(), self.G.parameters()):
            avg.lerp_(p, 1 - self.cfg.ema)

    def fit(self, images):
        for real in images.split(self.cfg.batch):
            real = real.to(self.device)
            with torch_xla.step():
                d_loss = self.d_step(real)
                g_loss = self.g_step()
                self.update_ema()
            self.it += 1
            print(f"iter {self.it}: D {d_loss.item():.4f}  G {g_loss.item():.4f}")


def blobs(n, side):
    """Gaussian bumps at random centres, scaled to [-1, 1]."""
    grid = torch.arange(side).float()
    cx, cy = (torch.rand(2, n, 1, 1) * (side - 3) + 1).unbind(0)
    d2 = (grid[None, None, :] - cx) ** 2 + (grid[None, :, None] - cy) ** 2
    return (2 * torch.exp(-d2 / 4) - 1).flatten(1)


if __name__ == "__main__":
    torch.manual_seed(2)
    cfg = Config()
    GANTrainer(cfg).fit(blobs(cfg.iters * cfg.batch, cfg.img))
