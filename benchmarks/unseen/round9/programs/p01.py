"""Small WGAN-style generator of 1-d waveforms with R1 regularisation."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

LATENT = 16
WAVE = 64
BATCH = 32


class Generator(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(LATENT, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, WAVE),
        )

    def forward(self, z):
        return torch.tanh(self.body(z))


class Discriminator(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.fc1 = nn.Linear(WAVE, width)
        self.fc2 = nn.Linear(width, width)
        self.fc3 = nn.Linear(width, width)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        h = F.softplus(self.fc1(x))
        h = F.softplus(self.fc2(h))
        h = F.softplus(self.fc3(h))
        return self.out(h).squeeze(1)


def real_waves(gen):
    t = torch.linspace(0, 1, WAVE)
    freq = torch.rand(BATCH, 1, generator=gen) * 3 + 1
    phase = torch.rand(BATCH, 1, generator=gen) * 2 * math.pi
    return 0.8 * torch.sin(2 * math.pi * freq * t + phase)


class GANTrainer:
    def __init__(self, device, r1_every=4, r1_gamma=2.0):
        self.device = device
        self.G = Generator().to(device)
        self.D = Discriminator().to(device)
        self.opt_g = torch.optim.Adam(self.G.parameters(), lr=2e-4, betas=(0.0, 0.99))
        self.opt_d = torch.optim.Adam(self.D.parameters(), lr=2e-4, betas=(0.0, 0.99))
        self.r1_every = r1_every
        self.r1_gamma = r1_gamma

    def d_step(self, real):
        z = torch.randn(BATCH, LATENT, device=self.device)
        with torch.no_grad():
            fake = self.G(z)
        loss = F.softplus(-self.D(real)).mean() + F.softplus(self.D(fake)).mean()
        self.opt_d.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_d.step()
        xm.mark_step()
        return loss.detach()

    def r1_step(self, real):
        x = real.detach().requires_grad_(True)
        score = self.D(x).sum()
        (grad,) = torch.autograd.grad(score, x, create_graph=True)
        penalty = 0.5 * self.r1_gamma * self.r1_every * grad.square().sum(1).mean()
        self.opt_d.zero_grad(set_to_none=True)
        penalty.backward()
        self.opt_d.step()
        xm.mark_step()

    def g_step(self):
        z = torch.randn(BATCH, LATENT, device=self.device)
        self.D.requires_grad_(False)
        loss = F.softplus(-self.D(self.G(z))).mean()
        self.opt_g.zero_grad(set_to_none=True)
        loss.backward()
        self.opt_g.step()
        self.D.requires_grad_(True)
        xm.mark_step()
        return loss.detach()

    def fit(self, steps):
        data_rng = torch.Generator().manual_seed(7)
        for step in range(steps):
            real = real_waves(data_rng).to(self.device)
            loss_d = self.d_step(real)
            if step % self.r1_every == 0:
                self.r1_step(real)
            loss_g = self.g_step()
            if step % 8 == 7:
                print(f"step {step + 1:3d}  D {loss_d.item():.4f}  G {loss_g.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = GANTrainer(torch_xla.device())
    trainer.fit(24)
    torch.save({k: v.cpu() for k, v in trainer.G.state_dict().items()}, "wave_gan.pt")
