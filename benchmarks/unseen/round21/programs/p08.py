"""A tiny GAN on a ring of Gaussians with a lazy R1 penalty and an averaged generator."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

LATENT = 4
BATCH = 16
STEPS = 40
R1_EVERY = 4
R1_WEIGHT = 0.5
EMA_FROM = 8


def mlp(n_in, n_out, hidden=16):
    return nn.Sequential(
        nn.Linear(n_in, hidden), nn.LeakyReLU(0.2),
        nn.Linear(hidden, hidden), nn.LeakyReLU(0.2),
        nn.Linear(hidden, n_out),
    )


class Ring:
    """Eight Gaussian modes on the unit circle."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)

    def sample(self, n):
        mode = torch.randint(0, 8, (n,), generator=self.gen)
        angle = mode.float() * (2 * math.pi / 8)
        centre = torch.stack([angle.cos(), angle.sin()], dim=1)
        return centre + 0.05 * torch.randn(n, 2, generator=self.gen)

    def latent(self, n):
        return torch.randn(n, LATENT, generator=self.gen)


class GanTrainer:
    def __init__(self, device, data):
        self.device = device
        self.data = data
        self.generator = mlp(LATENT, 2).to(device)
        self.critic = mlp(2, 1).to(device)
        self.averaged = copy.deepcopy(self.generator).requires_grad_(False)
        self.opt_g = torch.optim.RMSprop(self.generator.parameters(), lr=2e-3)
        self.opt_d = torch.optim.RMSprop(self.critic.parameters(), lr=3e-3)

    def critic_step(self, penalize):
        real = self.data.sample(BATCH).to(self.device)
        with torch.no_grad():
            fake = self.generator(self.data.latent(BATCH).to(self.device))
        if penalize:
            real.requires_grad_(True)
        score = self.critic(real)
        loss = F.softplus(-score).mean() + F.softplus(self.critic(fake)).mean()
        total = loss
        if penalize:
            slope, = torch.autograd.grad(score.sum(), real, create_graph=True)
            total = loss + R1_WEIGHT * R1_EVERY * slope.pow(2).sum(dim=1).mean()
        self.opt_d.zero_grad()
        total.backward()
        self.opt_d.step()
        return loss.detach()

    def generator_step(self, average):
        fake = self.generator(self.data.latent(BATCH).to(self.device))
        loss = F.softplus(-self.critic(fake)).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        if average:
            self.update_average()
        return loss.detach()

    @torch.no_grad()
    def update_average(self):
        for mean, p in zip(self.averaged.parameters(), self.generator.parameters()):
            mean.lerp_(p, 0.05)

    def fit(self, steps):
        for step in range(steps):
            with torch_xla.step():
                loss_d = self.critic_step(penalize=step % R1_EVERY == 0)
            with torch_xla.step():
                loss_g = self.generator_step(average=step >= EMA_FROM)
            if (step + 1) % 10 == 0:
                print(f"step {step + 1}: critic {loss_d.item():.4f}, generator {loss_g.item():.4f}, "
                      f"mean radius {self.mean_radius():.3f}")

    @torch.no_grad()
    def mean_radius(self, n=16):
        points = self.averaged(self.data.latent(n).to(self.device))
        return points.cpu().norm(dim=1).mean().item()


def main():
    torch.manual_seed(10)
    trainer = GanTrainer(torch_xla.device(), Ring(seed=12))
    trainer.fit(STEPS)


if __name__ == "__main__":
    main()
