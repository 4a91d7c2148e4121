"""Small convolutional GAN with R1 on the real images, several critic updates and an averaged generator."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

ZDIM = 24
BATCH = 16
ITERS = 14
N_CRITIC = 2
R1_EVERY = 4
R1_GAMMA = 2.0
EMA = 0.98


def up(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, 4 * cout, 3, padding=1), nn.PixelShuffle(2),
                         nn.GroupNorm(4, cout), nn.LeakyReLU(0.2))


def down(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 4, stride=2, padding=1), nn.LeakyReLU(0.2))


class Generator(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.fc = nn.Linear(ZDIM, 4 * 4 * width)
        self.width = width
        self.body = nn.Sequential(up(width, width), up(width, 8), nn.Conv2d(8, 1, 3, padding=1), nn.Tanh())

    def forward(self, z):
        return self.body(self.fc(z).view(-1, self.width, 4, 4))


class Critic(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.body = nn.Sequential(down(1, 8), down(8, width), nn.Flatten(), nn.Linear(width * 16, 1))

    def forward(self, x):
        return self.body(x).squeeze(1)


def real_batches(seed=0):
    gen = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    while True:
        c = torch.rand(BATCH, 2, generator=gen) * 8 + 4
        r = (xx - c[:, 0, None, None]) ** 2 + (yy - c[:, 1, None, None]) ** 2
        yield (2 * torch.exp(-r / 12) - 1).unsqueeze(1)


class GanTrainer:
    def __init__(self):
        self.device = xm.xla_device()
        self.g, self.d = Generator().to(self.device), Critic().to(self.device)
        self.g_ema = copy.deepcopy(self.g).requires_grad_(False)
        self.g_opt = torch.optim.Adam(self.g.parameters(), lr=2e-4, betas=(0.5, 0.99))
        self.d_opt = torch.optim.Adam(self.d.parameters(), lr=4e-4, betas=(0.5, 0.99))
        self.data = real_batches()
        self.d_updates = 0

    def latent(self):
        return torch.randn(BATCH, ZDIM).to(self.device)

    def critic_step(self):
        real = next(self.data).to(self.device)
        with torch.no_grad():
            fake = self.g(self.latent())
        regularise = self.d_updates % R1_EVERY == 0
        if regularise:
            real.requires_grad_(True)
        real_score = self.d(real)
        loss = F.softplus(-real_score).mean() + F.softplus(self.d(fake)).mean()
        if regularise:
            (grad,) = torch.autograd.grad(real_score.sum(), real, create_graph=True)
            loss = loss + 0.5 * R1_GAMMA * R1_EVERY * grad.pow(2).flatten(1).sum(1).mean()
        self.d_opt.zero_grad(set_to_none=True)
        loss.backward()
        self.d_opt.step()
        self.d_updates += 1
        torch_xla.sync()
        return loss.detach()

    def generator_step(self):
        loss = F.softplus(-self.d(self.g(self.latent()))).mean()
        self.g_opt.zero_grad(set_to_none=True)
        loss.backward()
        self.g_opt.step()
        with torch.no_grad():
            for e, p in zip(self.g_ema.parameters(), self.g.parameters()):
                e.mul_(EMA).add_(p, alpha=1 - EMA)
        torch_xla.sync()
        return loss.detach()

    @torch.no_grad()
    def preview(self):
        sample = self.g_ema(self.latent())
        torch_xla.sync()
        return sample.cpu().mean().item()

    def run(self):
        for it in range(ITERS):
            for _ in range(N_CRITIC):
                d_loss = self.critic_step()
            g_loss = self.generator_step()
            if it % 5 == 0:
                print(f"iter {it:3d} d {d_loss.item():.3f} g {g_loss.item():.3f} preview {self.preview():+.3f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    GanTrainer().run()
