"""Calorimeter shower generator: WGAN-GP with several critic updates per
generator update, plus a physics summary of generated showers now and then."""
import math
from types import SimpleNamespace

import torch
import torch.nn as nn
import torch_xla

HP = SimpleNamespace(
    layers=6, cells=8, latent=12, width=48, batch=64,
    updates=40, critic_per_gen=3, gp=5.0, lr=4e-4, betas=(0.5, 0.9),
    summary_every=10, summary_size=256,
)


class ShowerSimulation:
    """Toy full simulation: gamma profile in depth, Gaussian in radius."""

    def __init__(self, hp, seed=3):
        self.hp = hp
        self.gen = torch.Generator().manual_seed(seed)
        depth = torch.arange(hp.layers).float() + 0.5
        radius = torch.arange(hp.cells).float() - (hp.cells - 1) / 2
        self.depth, self.radius = depth, radius

    def draw(self, n):
        energy = torch.rand(n, 1, generator=self.gen) * 0.9 + 0.1
        peak = 1.5 + torch.log1p(10 * energy)
        long = self.depth ** 1.2 * torch.exp(-self.depth / peak * 1.2)
        long = long / long.sum(1, keepdim=True)
        spread = 0.8 + 0.25 * self.depth
        lateral = torch.exp(-0.5 * (self.radius[None] / spread[:, None]) ** 2)
        lateral = lateral / lateral.sum(1, keepdim=True)
        image = energy[..., None] * long[..., None] * lateral
        image = image * (1 + 0.15 * torch.randn(image.shape, generator=self.gen))
        return image.clamp_min(0).flatten(1) * 10, energy


class Generator(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.latent = hp.latent
        self.net = nn.Sequential(
            nn.Linear(hp.latent + 1, hp.width), nn.LeakyReLU(0.2),
            nn.Linear(hp.width, hp.width), nn.LeakyReLU(0.2),
            nn.Linear(hp.width, hp.layers * hp.cells), nn.Softplus(),
        )

    def forward(self, energy):
        z = torch.randn(energy.shape[0], self.latent, device=energy.device)
        return self.net(torch.cat([z, energy], 1))


class Critic(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(hp.layers * hp.cells + 1, hp.width), nn.LeakyReLU(0.2),
            nn.Linear(hp.width, hp.width), nn.LeakyReLU(0.2),
            nn.Linear(hp.width, 1),
        )

    def forward(self, image, energy):
        return self.net(torch.cat([image, energy], 1)).squeeze(1)


def gradient_penalty(critic, real, fake, energy):
    mix = torch.rand(real.shape[0], 1, device=real.device)
    point = (mix * real + (1 - mix) * fake).requires_grad_(True)
    grad, = torch.autograd.grad(critic(point, energy).sum(), point, create_graph=True)
    return (grad.norm(dim=1) - 1).square().mean()


class Trainer:
    def __init__(self, hp):
        self.hp = hp
        self.device = torch_xla.device()
        self.sim = ShowerSimulation(hp)
        self.g = Generator(hp).to(self.device)
        self.c = Critic(hp).to(self.device)
        self.g_opt = torch.optim.Adam(self.g.parameters(), lr=hp.lr, betas=hp.betas)
        self.c_opt = torch.optim.Adam(self.c.parameters(), lr=hp.lr, betas=hp.betas)

    def batch(self, n):
        image, energy = self.sim.draw(n)
        return image.to(self.device), energy.to(self.device)

    def critic_update(self):
        real, energy = self.batch(self.hp.batch)
        with torch.no_grad():
            fake = self.g(energy)
        gap = self.c(fake, energy).mean() - self.c(real, energy).mean()
        loss = gap + self.hp.gp * gradient_penalty(self.c, real, fake, energy)
        self.c_opt.zero_grad()
        loss.backward()
        self.c_opt.step()
        torch_xla.sync()
        return gap.detach()

    def generator_update(self):
        _, energy = self.batch(self.hp.batch)
        self.c.requires_grad_(False)
        loss = -self.c(self.g(energy), energy).mean()
        self.g_opt.zero_grad()
        loss.backward()
        self.g_opt.step()
        self.c.requires_grad_(True)
        torch_xla.sync()

    @torch.no_grad()
    def summary(self):
        real, energy = self.batch(self.hp.summary_size)
        shape = (-1, self.hp.layers, self.hp.cells)
        rows = []
        for image in (real, self.g(energy)):
            grid = image.view(shape)
            depth = torch.arange(self.hp.layers, device=grid.device).float()
            layer = grid.sum(2)
            total = layer.sum(1)
            mean_depth = (layer * depth).sum(1) / (total + 1e-6)
            rows.append(torch.stack([total.mean(), total.std(), mean_depth.mean()]))
        table = torch.stack(rows)
        torch_xla.sync()
        return table.cpu()

    def fit(self):
        for update in range(1, self.hp.updates + 1):
            for _ in range(self.hp.critic_per_gen):
                gap = self.critic_update()
            self.generator_update()
            if update % self.hp.summary_every == 0:
                real, fake = self.summary().tolist()
                print(
                    f"[{update:3d}] W~{-gap.item():.3f}  "
                    f"E {real[0]:.2f}/{fake[0]:.2f}  sd {real[1]:.2f}/{fake[1]:.2f}  "
                    f"depth {real[2]:.2f}/{fake[2]:.2f}"
                )


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer(HP).fit()
