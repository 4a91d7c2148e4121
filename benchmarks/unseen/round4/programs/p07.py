"""A small GAN: three critic updates for each generator update, and a lazy R1 penalty on every fourth critic update."""
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

Z, IMG, B = 16, 12, 16
N_CRITIC, R1_EVERY, R1_GAMMA = 3, 4, 5.0


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(Z, 32 * 3 * 3)
        self.net = nn.Sequential(
            nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.net(F.relu(self.fc(z)).view(-1, 32, 3, 3))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(16, 32, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(32 * 9, 1))

    def forward(self, x):
        return self.net(x).squeeze(1)


def blobs(seed):
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(IMG), torch.arange(IMG), indexing="ij")
    while True:
        c = torch.rand(B, 2, 1, 1, generator=g) * (IMG - 4) + 2
        d = (yy - c[:, :1]) ** 2 + (xx - c[:, 1:]) ** 2
        yield torch.exp(-d / 6.0) * 2 - 1


def trainable(module, flag):
    for p in module.parameters():
        p.requires_grad_(flag)


def critic_step(gen, critic, opt, real, z, with_r1):
    trainable(critic, True)
    opt.zero_grad(set_to_none=True)
    with torch.no_grad():
        fake = gen(z)
    loss = F.softplus(critic(fake)).mean() + F.softplus(-critic(real)).mean()
    if with_r1:
        real = real.detach().requires_grad_(True)
        (grad,) = torch.autograd.grad(critic(real).sum(), real, create_graph=True)
        loss = loss + 0.5 * R1_GAMMA * R1_EVERY * grad.square().sum((1, 2, 3)).mean()
    loss.backward()
    opt.step()
    torch_xla.sync()
    return loss


def generator_step(gen, critic, opt, z):
    trainable(critic, False)
    opt.zero_grad(set_to_none=True)
    loss = F.softplus(-critic(gen(z))).mean()
    loss.backward()
    opt.step()
    torch_xla.sync()
    return loss


def main(iterations=9):
    torch.manual_seed(0)
    dev = torch_xla.device()
    gen, critic = Generator().to(dev), Critic().to(dev)
    opt_g = torch.optim.Adam(gen.parameters(), lr=2e-4, betas=(0.5, 0.99))
    opt_c = torch.optim.Adam(critic.parameters(), lr=3e-4, betas=(0.5, 0.99))
    torch_xla.sync()
    data, count = blobs(0), itertools.count()
    for it in range(iterations):
        for _ in range(N_CRITIC):
            n = next(count)
            lc = critic_step(gen, critic, opt_c, next(data).to(dev), torch.randn(B, Z).to(dev), n % R1_EVERY == 0)
        lg = generator_step(gen, critic, opt_g, torch.randn(B, Z).to(dev))
        if it % 3 == 2:
            print(f"iter {it} critic {lc.item():.3f} generator {lg.item():.3f}")


if __name__ == "__main__":
    main()
