"""WGAN-style training on a ring of Gaussians: two critic updates per generator update, lazy R1, EMA."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

Z, BATCH, CRITIC_STEPS, R1_EVERY, SAMPLE_EVERY = 8, 32, 2, 4, 10


def ring(n, generator):
    k = torch.randint(0, 8, (n,), generator=generator).float()
    angle = k * (2 * math.pi / 8)
    centers = torch.stack([angle.cos(), angle.sin()], dim=1)
    return centers + 0.05 * torch.randn(n, 2, generator=generator)


def mlp(cin, cout, width=32):
    return nn.Sequential(nn.Linear(cin, width), nn.LeakyReLU(0.2), nn.Linear(width, width), nn.LeakyReLU(0.2),
                         nn.Linear(width, cout))


class EMA:
    def __init__(self, model, decay):
        self.shadow = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay
        self.n = 0

    @torch.no_grad()
    def update(self, model):
        self.n += 1
        decay = min(self.decay, (1 + self.n) / (10 + self.n))
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.lerp_(p, 1 - decay)


class GAN:
    def __init__(self, device, seed):
        torch.manual_seed(seed)
        self.device = device
        self.data = torch.Generator().manual_seed(seed)
        self.g = mlp(Z, 2).to(device)
        self.d = mlp(2, 1).to(device)
        self.ema = EMA(self.g, 0.95)
        self.g_opt = torch.optim.Adam(self.g.parameters(), lr=1e-3, betas=(0.0, 0.9))
        self.d_opt = torch.optim.Adam(self.d.parameters(), lr=1e-3, betas=(0.0, 0.9))
        self.critic_calls = 0

    def noise(self):
        return torch.randn(BATCH, Z, device=self.device)

    def critic_step(self):
        real = ring(BATCH, self.data).to(self.device)
        penalize = self.critic_calls % R1_EVERY == 0
        self.critic_calls += 1
        real.requires_grad_(penalize)
        self.d_opt.zero_grad()
        score_real = self.d(real)
        score_fake = self.d(self.g(self.noise()).detach())
        loss = F.softplus(-score_real).mean() + F.softplus(score_fake).mean()
        if penalize:
            grad, = torch.autograd.grad(score_real.sum(), real, create_graph=True)
            loss = loss + 0.5 * R1_EVERY * grad.square().sum(1).mean()
        loss.backward()
        self.d_opt.step()
        torch_xla.sync()
        return loss

    def generator_step(self):
        self.g_opt.zero_grad()
        loss = F.softplus(-self.d(self.g(self.noise()))).mean()
        loss.backward()
        self.g_opt.step()
        self.ema.update(self.g)
        torch_xla.sync()
        return loss

    @torch.no_grad()
    def sample(self):
        x = self.ema.shadow(self.noise())
        torch_xla.sync()
        return x.cpu()


def modes_covered(x):
    angle = torch.atan2(x[:, 1], x[:, 0]) % (2 * math.pi)
    return len(set((angle / (2 * math.pi / 8)).round().int().remainder(8).tolist()))


def main():
    gan = GAN(torch_xla.device(), seed=2)
    torch_xla.sync()
    for step in range(1, 31):
        for _ in range(CRITIC_STEPS):
            d_loss = gan.critic_step()
        g_loss = gan.generator_step()
        if step % SAMPLE_EVERY == 0:
            covered = modes_covered(gan.sample())
            print(f'step {step} d {d_loss.item():.3f} g {g_loss.item():.3f} modes {covered}')


if __name__ == '__main__':
    main()
