"""WGAN-GP on small galaxy cut-outs (synthetic Sersic-like profiles)."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    size: int = 16
    latent: int = 24
    width: int = 16
    batch: int = 32
    n_critic: int = 3
    gp_weight: float = 10.0
    lr: float = 2e-4
    rounds: int = 25
    sample_every: int = 10
    seed: int = 7


def render(n_images, size, gen):
    axis = torch.linspace(-1, 1, size)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    radius = 0.15 + 0.35 * torch.rand(n_images, 1, 1, generator=gen)
    ratio = 0.4 + 0.6 * torch.rand(n_images, 1, 1, generator=gen)
    theta = math.pi * torch.rand(n_images, 1, 1, generator=gen)
    u = xx * torch.cos(theta) + yy * torch.sin(theta)
    v = (-xx * torch.sin(theta) + yy * torch.cos(theta)) / ratio
    profile = torch.exp(-torch.sqrt(u * u + v * v) / radius)
    noise = 0.03 * torch.randn(n_images, size, size, generator=gen)
    return (2 * (profile + noise) - 1).unsqueeze(1)


class CutoutStream:
    """Endless stream of shuffled batches kept on the host."""

    def __init__(self, images, batch, gen):
        self.images, self.batch, self.gen = images, batch, gen

    def __iter__(self):
        while True:
            order = torch.randperm(len(self.images), generator=self.gen)
            usable = len(order) - len(order) % self.batch
            for chunk in order[:usable].split(self.batch):
                yield self.images[chunk]


class Generator(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.w = w
        self.stem = nn.Linear(cfg.latent, 2 * w * 4 * 4)
        self.body = nn.Sequential(
            nn.ReLU(),
            nn.ConvTranspose2d(2 * w, w, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(w, 1, 4, stride=2, padding=1),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.body(self.stem(z).view(-1, 2 * self.w, 4, 4))


class Critic(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.net = nn.Sequential(
            nn.Conv2d(1, w, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Conv2d(w, 2 * w, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(2 * w * 4 * 4, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def gradient_penalty(critic, real, fake):
    eps = torch.rand(real.size(0), 1, 1, 1, device=real.device)
    mix = (eps * real + (1 - eps) * fake).requires_grad_(True)
    score = critic(mix).sum()
    (grad,) = torch.autograd.grad(score, mix, create_graph=True)
    return ((grad.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        self.G = Generator(cfg).to(self.device)
        self.D = Critic(cfg).to(self.device)
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=cfg.lr, betas=(0.0, 0.9))
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=cfg.lr, betas=(0.0, 0.9))
        self.probe = torch.randn(8, cfg.latent).to(self.device)

    def latent(self):
        return torch.randn(self.cfg.batch, self.cfg.latent, device=self.device)

    def critic_step(self, real):
        with torch.no_grad():
            fake = self.G(self.latent())
        wdist = self.D(real).mean() - self.D(fake).mean()
        loss = -wdist + self.cfg.gp_weight * gradient_penalty(self.D, real, fake)
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        torch_xla.sync()
        return wdist.detach()

    def generator_step(self):
        for p in self.D.parameters():
            p.requires_grad_(False)
        loss = -self.D(self.G(self.latent())).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        torch_xla.sync()
        for p in self.D.parameters():
            p.requires_grad_(True)
        return loss.detach()

    @torch.no_grad()
    def sample(self):
        self.G.eval()
        out = self.G(self.probe)
        torch_xla.sync()
        self.G.train()
        return out.cpu()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    xm.set_rng_state(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    stream = iter(CutoutStream(render(400, cfg.size, gen), cfg.batch, gen))
    trainer = Trainer(cfg)
    torch_xla.sync()

    for rnd in range(1, cfg.rounds + 1):
        for _ in range(cfg.n_critic):
            wdist = trainer.critic_step(next(stream).to(trainer.device))
        g_loss = trainer.generator_step()
        if rnd % cfg.sample_every == 0:
            grid = trainer.sample()
            print(f"round {rnd:3d}  W={wdist.item():+.4f}  G={g_loss.item():+.4f}  "
                  f"peak={grid.amax().item():.3f}")
    print("finished")


if __name__ == "__main__":
    main()
