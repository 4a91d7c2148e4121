"""WGAN-GP for single-beat ECG traces (1-D convolutions).

Critic every step, generator every third step, a weight average of the generator,
and a small panel of samples from the averaged weights every ten steps.
"""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch_xla

LENGTH = 64
LATENT = 16
BATCH = 32
STEPS = 48
N_CRITIC = 3
PANEL_EVERY = 10
AVG_DECAY = 0.9


def make_beats(n=512, seed=2):
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, LENGTH)[None, :]
    out = np.zeros((n, LENGTH))
    for centre, width, height in ((0.2, 0.03, 0.2), (0.42, 0.012, -0.2),
                                  (0.45, 0.015, 1.0), (0.49, 0.012, -0.3),
                                  (0.72, 0.05, 0.35)):
        c = centre + rng.normal(0, 0.012, (n, 1))
        h = height * (1 + rng.normal(0, 0.12, (n, 1)))
        out += h * np.exp(-((t - c) ** 2) / (2 * width ** 2))
    out += rng.normal(0, 0.01, out.shape)
    return torch.from_numpy(out.astype(np.float32)).unsqueeze(1)


class Generator(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.ch = ch
        self.stem = nn.Linear(LATENT, ch * 8)
        self.net = nn.Sequential(
            nn.ConvTranspose1d(ch, ch, 4, stride=2, padding=1), nn.SiLU(),
            nn.ConvTranspose1d(ch, ch, 4, stride=2, padding=1), nn.SiLU(),
            nn.ConvTranspose1d(ch, ch, 4, stride=2, padding=1), nn.SiLU(),
            nn.Conv1d(ch, 1, 5, padding=2),
        )

    def forward(self, z):
        return self.net(self.stem(z).view(-1, self.ch, 8))


class Critic(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, ch, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(ch, ch, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(ch * LENGTH // 4, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(-1)


def gradient_penalty(critic, real, fake):
    alpha = torch.rand(real.size(0), 1, 1, device=real.device)
    mix = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    (grad,) = torch.autograd.grad(critic(mix).sum(), mix, create_graph=True)
    return ((grad.flatten(1).pow(2).sum(1) + 1e-8).sqrt() - 1).pow(2).mean()


@torch.no_grad()
def update_average(avg, net):
    for a, p in zip(avg.parameters(), net.parameters()):
        a.mul_(AVG_DECAY).add_(p, alpha=1 - AVG_DECAY)


def critic_step(gen, critic, opt, real, device):
    opt.zero_grad()
    with torch.no_grad():
        fake = gen(torch.randn(real.size(0), LATENT, device=device))
    gap = critic(fake).mean() - critic(real).mean()
    loss = gap + 10.0 * gradient_penalty(critic, real, fake)
    loss.backward()
    opt.step()
    return gap.detach()


def generator_step(gen, critic, opt, device):
    opt.zero_grad()
    critic.requires_grad_(False)
    loss = -critic(gen(torch.randn(BATCH, LATENT, device=device))).mean()
    loss.backward()
    critic.requires_grad_(True)
    opt.step()
    return loss.detach()


def main():
    torch.manual_seed(7)
    device = torch_xla.device()
    beats = make_beats()
    order = torch.Generator().manual_seed(7)

    gen, critic = Generator().to(device), Critic().to(device)
    avg = copy.deepcopy(gen).requires_grad_(False)
    opt_g = torch.optim.Adam(gen.parameters(), lr=2e-3, betas=(0.0, 0.9))
    opt_c = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.0, 0.9))
    panel_z = torch.randn(8, LATENT, device=device)
    torch_xla.sync()

    for step in range(1, STEPS + 1):
        pick = torch.randint(0, len(beats), (BATCH,), generator=order)
        gap = critic_step(gen, critic, opt_c, beats[pick].to(device), device)
        torch_xla.sync()

        if step % N_CRITIC == 0:
            generator_step(gen, critic, opt_g, device)
            update_average(avg, gen)
            torch_xla.sync()

        if step % PANEL_EVERY == 0:
            with torch.no_grad():
                panel = avg(panel_z)
            torch_xla.sync()
            peak = panel.cpu().amax(-1).mean().item()
            print(f"step {step:3d} gap {gap.item():+.4f} mean peak {peak:.3f}")


if __name__ == "__main__":
    main()
