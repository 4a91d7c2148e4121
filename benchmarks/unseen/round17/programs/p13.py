"""GAN for daily load curves of small households (24 x 4 quarter hours).

Non-saturating loss, lazy R1 every few critic updates, an averaged generator
for the sheets that go to the planners.
"""
import copy
import math
import random
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CFG = SimpleNamespace(steps=72, batch=32, z=12, points=96, r1_every=8, r1_gamma=2.0,
                      ema_start=24, ema_decay=0.97, sheet_every=18, lr=2e-3)


def mlp(*dims):
    layers = []
    for a, b in zip(dims[:-2], dims[1:-1]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    layers.append(nn.Linear(dims[-2], dims[-1]))
    return nn.Sequential(*layers)


def real_curves(n, points):
    """Morning and evening peak at random heights and hours."""
    t = torch.arange(points) / points * 24
    rows = []
    for _ in range(n):
        m, e = random.gauss(7.5, 0.7), random.gauss(19, 0.9)
        h1, h2 = random.uniform(0.4, 1.0), random.uniform(0.7, 1.6)
        rows.append(0.2 + h1 * torch.exp(-(t - m) ** 2 / 3) + h2 * torch.exp(-(t - e) ** 2 / 5))
    return torch.stack(rows) + 0.03 * torch.randn(n, points)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = xm.xla_device()
        self.gen = mlp(cfg.z, 48, 64, cfg.points).to(self.device)
        self.critic = mlp(cfg.points, 64, 48, 1).to(self.device)
        self.averaged = None
        self.opt_g = torch.optim.Adam(self.gen.parameters(), lr=cfg.lr, betas=(0.0, 0.99))
        self.opt_d = torch.optim.Adam(self.critic.parameters(), lr=cfg.lr, betas=(0.0, 0.99))
        self.sheet_noise = torch.randn(16, cfg.z).to(self.device)

    def lr_at(self, it):
        return self.cfg.lr * (0.55 + 0.4 * math.cos(math.pi * it / self.cfg.steps))

    def critic_update(self, real, with_r1):
        real.requires_grad_(with_r1)
        noise = torch.randn(real.shape[0], self.cfg.z, device=self.device)
        with torch.no_grad():
            fake = self.gen(noise)
        score_real = self.critic(real)
        loss = F.softplus(-score_real).mean() + F.softplus(self.critic(fake)).mean()
        if with_r1:
            (grad,) = torch.autograd.grad(score_real.sum(), real, create_graph=True)
            penalty = grad.square().sum(1).mean()
            loss = loss + 0.5 * self.cfg.r1_gamma * self.cfg.r1_every * penalty
        self.opt_d.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_d.step()
        return loss.detach()

    def generator_update(self):
        noise = torch.randn(self.cfg.batch, self.cfg.z, device=self.device)
        for p in self.critic.parameters():
            p.requires_grad_(False)
        loss = F.softplus(-self.critic(self.gen(noise))).mean()
        self.opt_g.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_g.step()
        for p in self.critic.parameters():
            p.requires_grad_(True)
        return loss.detach()

    @torch.no_grad()
    def average(self, it):
        if it < self.cfg.ema_start:
            return
        if self.averaged is None:
            self.averaged = copy.deepcopy(self.gen)
            return
        for a, p in zip(self.averaged.parameters(), self.gen.parameters()):
            a.lerp_(p, 1.0 - self.cfg.ema_decay)

    @torch.no_grad()
    def sheet(self, it):
        """Numbers for the planners: mean curve and its evening peak."""
        gen = self.averaged if self.averaged is not None else self.gen
        curves = gen(self.sheet_noise)
        torch_xla.sync()
        curves = curves.cpu()
        print(f"[sheet {it}] mean load {curves.mean():.3f}  "
              f"peak slot {int(curves.mean(0).argmax())}  spread {curves.std(0).mean():.3f}")

    def fit(self):
        for it in range(self.cfg.steps):
            for opt in (self.opt_d, self.opt_g):
                opt.param_groups[0]["lr"] = self.lr_at(it)
            real = real_curves(self.cfg.batch, self.cfg.points).to(self.device)
            d_loss = self.critic_update(real, with_r1=it % self.cfg.r1_every == 0)
            torch_xla.sync()
            g_loss = self.generator_update()
            self.average(it)
            torch_xla.sync()
            if (it + 1) % self.cfg.sheet_every == 0:
                print(f"{it + 1:4d}  critic {d_loss.item():.4f}  generator {g_loss.item():.4f}")
                self.sheet(it + 1)


if __name__ == "__main__":
    random.seed(5)
    torch.manual_seed(5)
    Trainer(CFG).fit()
