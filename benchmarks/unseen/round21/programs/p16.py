"""Small GAN on 2-D points, with a lazy gradient penalty and averaged generator weights."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

LATENT = 4
HIDDEN = 24
BATCH_SIZE = 16
STEPS = 44
PENALTY_EVERY = 4
SAMPLE_EVERY = 8
EMA_DECAY = 0.95


def ring(n, generator):
    """Points near one of eight places on a circle."""
    k = torch.randint(0, 8, (n,), generator=generator)
    angle = k * (2 * math.pi / 8)
    centers = torch.stack([angle.cos(), angle.sin()], dim=1)
    return centers + 0.05 * torch.randn(n, 2, generator=generator)


def mlp(n_in, n_out):
    return nn.Sequential(
        nn.Linear(n_in, HIDDEN),
        nn.LeakyReLU(0.2),
        nn.Linear(HIDDEN, n_out),
    )


def gradient_penalty(critic, real):
    real = real.detach().requires_grad_(True)
    score = critic(real).sum()
    (grad,) = torch.autograd.grad(score, real, create_graph=True)
    return grad.square().sum(dim=1).mean()


class GanTrainer:
    def __init__(self, device):
        self.device = device
        self.noise = torch.Generator().manual_seed(31)
        self.points = torch.Generator().manual_seed(32)
        self.generator = mlp(LATENT, 2).to(device)
        self.critic = mlp(2, 1).to(device)
        self.average = copy.deepcopy(self.generator).requires_grad_(False)
        self.opt_g = torch.optim.Adam(self.generator.parameters(), lr=2e-3, betas=(0.5, 0.99))
        self.opt_d = torch.optim.Adam(self.critic.parameters(), lr=2e-3, betas=(0.5, 0.99))
        self.fixed_z = self.latent(BATCH_SIZE)

    def latent(self, n):
        return torch.randn(n, LATENT, generator=self.noise).to(self.device)

    def critic_step(self, penalize):
        real = ring(BATCH_SIZE, self.points).to(self.device)
        with torch.no_grad():
            fake = self.generator(self.latent(BATCH_SIZE))
        loss = F.softplus(-self.critic(real)).mean() + F.softplus(self.critic(fake)).mean()
        if penalize:
            loss = loss + 0.5 * PENALTY_EVERY * gradient_penalty(self.critic, real)
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        torch_xla.sync()
        return loss.detach()

    def generator_step(self):
        self.critic.requires_grad_(False)
        loss = F.softplus(-self.critic(self.generator(self.latent(BATCH_SIZE)))).mean()
        self.opt_g.zero_grad()
        loss.backward()
        self.critic.requires_grad_(True)
        self.opt_g.step()
        with torch.no_grad():
            for slow, fast in zip(self.average.parameters(), self.generator.parameters()):
                slow.lerp_(fast, 1 - EMA_DECAY)
        torch_xla.sync()
        return loss.detach()

    @torch.no_grad()
    def sample(self):
        points = self.average(self.fixed_z)
        torch_xla.sync()
        return points.cpu()


def main():
    torch.manual_seed(8)
    trainer = GanTrainer(torch_xla.device())
    torch_xla.sync()
    for step in range(1, STEPS + 1):
        loss_d = trainer.critic_step(penalize=step % PENALTY_EVERY == 0)
        loss_g = trainer.generator_step()
        if step % SAMPLE_EVERY == 0:
            radius = trainer.sample().norm(dim=1).mean()
            print(f"step {step:3d}  D {loss_d.item():.3f}  G {loss_g.item():.3f}  radius {radius:.3f}")


if __name__ == "__main__":
    main()
