"""Small DCGAN-like training on synthetic 16x16 blobs: non-saturating loss, lazy R1
on the discriminator, EMA generator, sample statistics every now and then."""
import copy
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    steps: int = 60
    batch_size: int = 16
    z_dim: int = 16
    width: int = 16
    lr: float = 1e-3
    r1_gamma: float = 0.5
    r1_every: int = 8
    ema_decay: float = 0.98
    sample_every: int = 15
    seed: int = 3


class Generator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.fc = nn.Linear(cfg.z_dim, 4 * 4 * w * 2)
        self.c1 = nn.Conv2d(2 * w, w, 3, padding=1)
        self.c2 = nn.Conv2d(w, w, 3, padding=1)
        self.out = nn.Conv2d(w, 1, 1)
        self.w = w

    def forward(self, z):
        x = F.leaky_relu(self.fc(z), 0.2).view(-1, 2 * self.w, 4, 4)
        x = x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
        x = F.leaky_relu(self.c1(x), 0.2)
        x = x.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
        x = F.leaky_relu(self.c2(x), 0.2)
        return torch.tanh(self.out(x))


class Discriminator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.c1 = nn.Conv2d(1, w, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(w, 2 * w, 3, stride=2, padding=1)
        self.fc = nn.Linear(2 * w * 16, 1)

    def forward(self, x):
        x = F.leaky_relu(self.c1(x), 0.2)
        x = F.leaky_relu(self.c2(x), 0.2)
        return self.fc(x.flatten(1)).squeeze(1)


def blobs(rng, n):
    yy, xx = np.mgrid[0:16, 0:16].astype("float32")
    cx, cy = rng.uniform(4, 12, (2, n, 1, 1))
    s = rng.uniform(1.5, 3.0, (n, 1, 1))
    img = np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / (2 * s * s))
    return torch.from_numpy((2 * img - 1).astype("float32")).unsqueeze(1)


def r1_penalty(logits, real):
    (grad,) = torch.autograd.grad(logits.sum(), real, create_graph=True)
    return grad.pow(2).flatten(1).sum(1).mean()


class Trainer:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        self.gen = Generator(cfg).to(device)
        self.disc = Discriminator(cfg).to(device)
        self.ema = copy.deepcopy(self.gen).requires_grad_(False)
        self.opt_g = torch.optim.Adam(self.gen.parameters(), lr=cfg.lr, betas=(0.0, 0.99))
        self.opt_d = torch.optim.Adam(self.disc.parameters(), lr=cfg.lr, betas=(0.0, 0.99))
        self.rng = np.random.RandomState(cfg.seed)
        self.fixed_z = torch.randn(32, cfg.z_dim).to(device)

    def disc_step(self, step):
        cfg = self.cfg
        real = blobs(self.rng, cfg.batch_size).to(self.device)
        z = torch.randn(cfg.batch_size, cfg.z_dim, device=self.device)
        with torch.no_grad():
            fake = self.gen(z)
        regularize = step % cfg.r1_every == 0
        real.requires_grad_(regularize)
        real_logits = self.disc(real)
        loss = F.softplus(-real_logits).mean() + F.softplus(self.disc(fake)).mean()
        if regularize:
            loss = loss + 0.5 * cfg.r1_gamma * cfg.r1_every * r1_penalty(real_logits, real)
        self.opt_d.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_d.step()
        torch_xla.sync()
        return loss.detach()

    def gen_step(self):
        cfg = self.cfg
        z = torch.randn(cfg.batch_size, cfg.z_dim, device=self.device)
        loss = F.softplus(-self.disc(self.gen(z))).mean()
        self.opt_g.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_g.step()
        with torch.no_grad():
            for e, p in zip(self.ema.parameters(), self.gen.parameters()):
                e.lerp_(p, 1.0 - cfg.ema_decay)
        torch_xla.sync()
        return loss.detach()

    @torch.no_grad()
    def sample(self):
        x = self.ema(self.fixed_z)
        stats = torch.stack([x.mean(), x.std(), x.max()])
        torch_xla.sync()
        return stats.cpu().tolist()

    def fit(self):
        for step in range(self.cfg.steps):
            d = self.disc_step(step)
            g = self.gen_step()
            if (step + 1) % self.cfg.sample_every == 0:
                mean, std, peak = self.sample()
                print(f"{step + 1:4d} d {d.item():.3f} g {g.item():.3f} "
                      f"| sample mean {mean:.3f} std {std:.3f} max {peak:.3f}")


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    Trainer(cfg, device).fit()


if __name__ == "__main__":
    main()
