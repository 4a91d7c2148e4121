"""Small GAN for spectrogram patches, StyleGAN2 recipe at toy size.

Non-saturating loss, R1 penalty applied lazily every R1_EVERY steps, an averaged
generator for sampling, and a sample dump every SAMPLE_EVERY steps.
"""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

LATENT = 16
BATCH = 16
STEPS = 48
R1_EVERY = 8
R1_GAMMA = 0.5
SAMPLE_EVERY = 12
EMA_BETA = 0.98


class Generator(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.width = width
        self.fc = nn.Linear(LATENT, width * 4 * 4)
        self.up1 = nn.Conv2d(width, width, 3, padding=1)
        self.up2 = nn.Conv2d(width, width, 3, padding=1)
        self.out = nn.Conv2d(width, 1, 1)

    @staticmethod
    def _double(x):
        b, c, h, w = x.shape
        x = x[:, :, :, None, :, None].expand(b, c, h, 2, w, 2)
        return x.reshape(b, c, 2 * h, 2 * w)

    def forward(self, z):
        x = self.fc(z).view(-1, self.width, 4, 4)
        x = F.leaky_relu(self.up1(self._double(x)), 0.2)
        x = F.leaky_relu(self.up2(self._double(x)), 0.2)
        return torch.tanh(self.out(x))


class Critic(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.c1 = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.c2 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.fc = nn.Linear(2 * width * 4 * 4, 1)

    def forward(self, x):
        x = F.leaky_relu(self.c1(x), 0.2)
        x = F.leaky_relu(self.c2(x), 0.2)
        return self.fc(x.flatten(1)).squeeze(1)


def real_patches(generator):
    freq = torch.randint(1, 4, (BATCH, 1, 1), generator=generator).float()
    phase = 6.28 * torch.rand(BATCH, 1, 1, generator=generator)
    t = torch.linspace(0, 6.28, 16)
    wave = torch.sin(freq * t[None, :, None] + phase) * torch.cos(t)[None, None, :]
    return wave[:, None]


@torch.no_grad()
def update_average(avg, model, beta):
    for a, p in zip(avg.parameters(), model.parameters()):
        a.mul_(beta).add_(p, alpha=1 - beta)


def r1_penalty(critic, real):
    real = real.detach().requires_grad_(True)
    score = critic(real).sum()
    grad, = torch.autograd.grad(score, real, create_graph=True)
    return grad.square().sum(dim=(1, 2, 3)).mean()


def main():
    torch.manual_seed(77)
    generator = torch.Generator().manual_seed(77)
    device = xm.xla_device()

    gen, critic = Generator().to(device), Critic().to(device)
    avg = copy.deepcopy(gen).requires_grad_(False)
    opt_g = torch.optim.Adam(gen.parameters(), lr=2e-3, betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.0, 0.99))
    fixed_z = torch.randn(BATCH, LATENT, generator=generator).to(device)
    torch_xla.sync()

    for step in range(STEPS):
        real = real_patches(generator).to(device)
        z_d = torch.randn(BATCH, LATENT, generator=generator).to(device)
        z_g = torch.randn(BATCH, LATENT, generator=generator).to(device)

        with torch.no_grad():
            fake = gen(z_d)
        d_loss = F.softplus(critic(fake)).mean() + F.softplus(-critic(real)).mean()
        if step % R1_EVERY == 0:
            d_loss = d_loss + 0.5 * R1_GAMMA * R1_EVERY * r1_penalty(critic, real)
        opt_d.zero_grad(set_to_none=True)
        d_loss.backward()
        opt_d.step()

        critic.requires_grad_(False)
        g_loss = F.softplus(-critic(gen(z_g))).mean()
        opt_g.zero_grad(set_to_none=True)
        g_loss.backward()
        opt_g.step()
        critic.requires_grad_(True)
        update_average(avg, gen, EMA_BETA)
        torch_xla.sync()

        if (step + 1) % SAMPLE_EVERY == 0:
            with torch.no_grad():
                images = avg(fixed_z)
            torch_xla.sync()
            host = images.cpu()
            print(f"step {step + 1:3d} d {d_loss.item():.3f} g {g_loss.item():.3f} "
                  f"sample std {host.std().item():.3f}")


if __name__ == "__main__":
    main()
