"""1-D convolutional GAN for single heartbeats: two critic updates per generator
update, gradient penalty on real data at intervals, averaged generator for previews."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

LENGTH = 32
LATENT = 8


def heartbeats(n, rng):
    """P wave, QRS complex and T wave as Gaussian bumps with jitter."""
    t = np.linspace(0, 1, LENGTH)[None]

    def bump(centre, width, height):
        c = centre + 0.02 * rng.standard_normal((n, 1))
        h = height * (1 + 0.15 * rng.standard_normal((n, 1)))
        return h * np.exp(-((t - c) / width) ** 2)

    x = (bump(0.2, 0.05, 0.2) - bump(0.36, 0.02, 0.25) + bump(0.42, 0.03, 1.2)
         - bump(0.48, 0.02, 0.35) + bump(0.72, 0.08, 0.35))
    return torch.from_numpy(x.astype(np.float32))[:, None]


class Generator(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.width = width
        self.fc = nn.Linear(LATENT, width * 2 * 8)
        self.up1 = nn.ConvTranspose1d(width * 2, width, 4, stride=2, padding=1)
        self.up2 = nn.ConvTranspose1d(width, width, 4, stride=2, padding=1)
        self.out = nn.Conv1d(width, 1, 5, padding=2)

    def forward(self, z):
        h = self.fc(z).view(-1, self.width * 2, 8)
        h = F.leaky_relu(self.up1(F.leaky_relu(h, 0.2)), 0.2)
        h = F.leaky_relu(self.up2(h), 0.2)
        return self.out(h)


class Critic(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, width, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(width, width * 2, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(width * 2 * 8, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


class Averaged:
    def __init__(self, model, decay=0.9):
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, source):
        for a, p in zip(self.model.parameters(), source.parameters()):
            a.mul_(self.decay).add_(p, alpha=1 - self.decay)


def critic_loss(critic, real, fake):
    return F.softplus(-critic(real)).mean() + F.softplus(critic(fake)).mean()


def r1_penalty(critic, real):
    real = real.detach().requires_grad_(True)
    (grad,) = torch.autograd.grad(critic(real).sum(), real, create_graph=True)
    return grad.square().sum(dim=(1, 2)).mean()


def main(steps=48, batch=24, r1_every=4, r1_gamma=0.2, ema_from=10):
    torch.manual_seed(9)
    rng = np.random.default_rng(9)
    device = torch_xla.device()
    gen, critic = Generator().to(device), Critic().to(device)
    avg = Averaged(gen)
    opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.5, 0.99))
    opt_d = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.99))
    fixed_z = torch.randn(16, LATENT).to(device)
    g_loss = torch.zeros((), device=device)

    for step in range(steps):
        sigma = 0.3 * (1 - step / steps)               # instance noise, fading out
        real = heartbeats(batch, rng)
        real = (real + sigma * torch.randn(real.shape)).to(device)
        z = torch.randn(batch, LATENT).to(device)

        with torch.no_grad():
            fake = gen(z)
        fake = fake + sigma * torch.randn_like(fake)
        d_loss = critic_loss(critic, real, fake)
        if step % r1_every == 0:
            d_loss = d_loss + 0.5 * r1_gamma * r1_every * r1_penalty(critic, real)
        opt_d.zero_grad()
        d_loss.backward()
        xm.optimizer_step(opt_d)

        if step % 2 == 1:
            critic.requires_grad_(False)
            z = torch.randn(batch, LATENT).to(device)
            g_loss = F.softplus(-critic(gen(z))).mean()
            opt_g.zero_grad()
            g_loss.backward()
            xm.optimizer_step(opt_g)
            critic.requires_grad_(True)
            if step >= ema_from:
                avg.update(gen)
        torch_xla.sync()

        if (step + 1) % 12 == 0:
            with torch.no_grad():
                beats = avg.model(fixed_z)
            torch_xla.sync()
            beats = beats.cpu().numpy()
            print(f"step {step + 1} d {d_loss.item():.3f} g {g_loss.item():.3f} "
                  f"sigma {sigma:.2f} peak at {beats.mean((0, 1)).argmax() / LENGTH:.2f}")


if __name__ == "__main__":
    main()
