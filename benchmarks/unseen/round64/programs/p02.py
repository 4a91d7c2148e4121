"""WGAN-GP on small synthetic 16x16 blobs."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch_xla


@dataclass
class Config:
    z_dim: int = 16
    img: int = 16
    batch: int = 16
    n_critic: int = 4
    gp_weight: float = 10.0
    lr: float = 2e-4
    iters: int = 60
    sample_every: int = 15
    seed: int = 11


def make_blobs(n, size, seed):
    rng = np.random.RandomState(seed)
    yy, xx = np.mgrid[0:size, 0:size]
    cx, cy = rng.uniform(4, size - 4, (2, n))
    s = rng.uniform(1.0, 3.0, n)
    d2 = (xx[None] - cx[:, None, None]) ** 2 + (yy[None] - cy[:, None, None]) ** 2
    imgs = np.exp(-d2 / (2 * s[:, None, None] ** 2))
    return torch.from_numpy((imgs * 2 - 1).astype("float32")).unsqueeze(1)


class Generator(nn.Module):
    def __init__(self, z_dim, ch=16):
        super().__init__()
        self.fc = nn.Linear(z_dim, ch * 2 * 4 * 4)
        self.net = nn.Sequential(
            nn.BatchNorm2d(ch * 2), nn.ReLU(),
            nn.ConvTranspose2d(ch * 2, ch, 4, 2, 1), nn.BatchNorm2d(ch), nn.ReLU(),
            nn.ConvTranspose2d(ch, 1, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        h = self.fc(z).view(z.size(0), -1, 4, 4)
        return self.net(h)


class Critic(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, ch, 3, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(ch, ch * 2, 3, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(ch * 2 * 16, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def gradient_penalty(critic, real, fake):
    eps = torch.rand(real.size(0), 1, 1, 1, device=real.device)
    mix = (eps * real + (1 - eps) * fake).requires_grad_(True)
    score = critic(mix)
    grad, = torch.autograd.grad(score.sum(), mix, create_graph=True)
    return ((grad.flatten(1).pow(2).sum(1) + 1e-12).sqrt() - 1).pow(2).mean()


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        self.G = Generator(cfg.z_dim).to(self.device)
        self.D = Critic().to(self.device)
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=cfg.lr, betas=(0.0, 0.9))
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=cfg.lr, betas=(0.0, 0.9))
        self.data = make_blobs(512, cfg.img, cfg.seed)
        self.rng = np.random.RandomState(cfg.seed)
        self.fixed_z = torch.randn(25, cfg.z_dim).to(self.device)
        self.grids = []

    def real_batch(self):
        idx = self.rng.choice(len(self.data), self.cfg.batch, replace=False)
        return self.data[idx].to(self.device)

    def noise(self):
        return torch.randn(self.cfg.batch, self.cfg.z_dim, device=self.device)

    def critic_step(self):
        real = self.real_batch()
        with torch.no_grad():
            fake = self.G(self.noise())
        gp = gradient_penalty(self.D, real, fake)
        w_dist = self.D(real).mean() - self.D(fake).mean()
        loss = -w_dist + self.cfg.gp_weight * gp
        self.opt_d.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_d.step()
        torch_xla.sync()
        return w_dist.detach(), gp.detach()

    def generator_step(self):
        for p in self.D.parameters():
            p.requires_grad_(False)
        loss = -self.D(self.G(self.noise())).mean()
        self.opt_g.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_g.step()
        for p in self.D.parameters():
            p.requires_grad_(True)
        torch_xla.sync()
        return loss.detach()

    @torch.no_grad()
    def sample_grid(self):
        self.G.eval()
        imgs = self.G(self.fixed_z)
        torch_xla.sync()
        self.G.train()
        grid = imgs.cpu().view(5, 5, self.cfg.img, self.cfg.img)
        self.grids.append(grid.permute(0, 2, 1, 3).reshape(5 * self.cfg.img, 5 * self.cfg.img).numpy())

    def fit(self):
        g_loss = None
        for it in range(1, self.cfg.iters + 1):
            w_dist, gp = self.critic_step()
            if it % self.cfg.n_critic == 0:
                g_loss = self.generator_step()
            if it % self.cfg.sample_every == 0:
                self.sample_grid()
                print(f"iter {it:3d}  W {w_dist.item():+.3f}  gp {gp.item():.3f}  G {g_loss.item():+.3f}")


if __name__ == "__main__":
    config = Config()
    torch.manual_seed(config.seed)
    Trainer(config).fit()
