"""GAN on single-lead ECG beats: lazy R1, EMA generator, decaying instance noise."""
import copy
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BEAT = 64
LATENT = 16
BATCH = 32
STEPS = 48
R1_EVERY = 4
R1_GAMMA = 2.0
SAMPLE_EVERY = 12
WARMUP_DISC = 4


class Beats:
    """P-QRS-T complexes as sums of Gaussian bumps with jittered timing and gain."""

    waves = [(0.25, 0.04, 0.15), (0.42, 0.012, -0.12), (0.46, 0.015, 1.0), (0.50, 0.012, -0.25), (0.70, 0.06, 0.3)]

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.t = np.linspace(0, 1, BEAT)

    def batch(self, n):
        out = np.zeros((n, 1, BEAT), dtype=np.float32)
        for i in range(n):
            shift, gain = self.rng.normal(0, 0.02), self.rng.uniform(0.7, 1.3)
            for mu, width, amp in self.waves:
                mu_i = mu + shift + self.rng.normal(0, 0.005)
                out[i, 0] += gain * amp * np.exp(-0.5 * ((self.t - mu_i) / width) ** 2)
        return torch.from_numpy(out)


class Generator(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.width = width
        self.fc = nn.Linear(LATENT, width * (BEAT // 4))
        self.c1 = nn.Conv1d(width, width, 5, padding=2)
        self.c2 = nn.Conv1d(width, width // 2, 5, padding=2)
        self.out = nn.Conv1d(width // 2, 1, 5, padding=2)

    def forward(self, z):
        h = self.fc(z).view(z.shape[0], self.width, -1)
        for conv in (self.c1, self.c2):
            h = h.repeat_interleave(2, dim=2)
            h = F.leaky_relu(conv(h), 0.2)
        return 1.5 * torch.tanh(self.out(h))


class Discriminator(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.c1 = nn.Conv1d(1, width, 5, stride=2, padding=2)
        self.c2 = nn.Conv1d(width, width, 5, stride=2, padding=2)
        self.fc = nn.Linear(width * (BEAT // 4), 1)

    def forward(self, x):
        h = F.leaky_relu(self.c1(x), 0.2)
        h = F.leaky_relu(self.c2(h), 0.2)
        return self.fc(h.flatten(1)).squeeze(1)


def r1_penalty(disc, real):
    real = real.detach().requires_grad_(True)
    grad, = torch.autograd.grad(disc(real).sum(), real, create_graph=True)
    return grad.pow(2).sum(dim=(1, 2)).mean()


def disc_step(gen, disc, opt, real, noise_std, regularize):
    z = torch.randn(BATCH, LATENT, device=real.device)
    with torch.no_grad():
        fake = gen(z)
    fake = fake + noise_std * torch.randn_like(fake)
    noisy = real + noise_std * torch.randn_like(real)
    loss = F.softplus(disc(fake)).mean() + F.softplus(-disc(noisy)).mean()
    if regularize:
        loss = loss + 0.5 * R1_GAMMA * R1_EVERY * r1_penalty(disc, noisy)
    opt.zero_grad()
    loss.backward()
    opt.step()
    torch_xla.sync()
    return loss.detach()


def gen_step(gen, disc, ema, opt, noise_std, device):
    z = torch.randn(BATCH, LATENT, device=device)
    fake = gen(z)
    disc.requires_grad_(False)
    loss = F.softplus(-disc(fake + noise_std * torch.randn_like(fake))).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    disc.requires_grad_(True)
    with torch.no_grad():
        for e, p in zip(ema.parameters(), gen.parameters()):
            e.lerp_(p, 0.02)
    torch_xla.sync()
    return loss.detach()


@torch.no_grad()
def sample_stats(ema, z, reference):
    beats = ema(z)
    torch_xla.sync()
    beats = beats.cpu()
    gap = (beats.mean(0) - reference.mean(0)).abs().mean() + (beats.std(0) - reference.std(0)).abs().mean()
    peak = beats[:, 0].argmax(dim=1).float().mean() / BEAT
    return gap.item(), peak.item()


def main():
    torch.manual_seed(17)
    device = torch_xla.device()
    data = Beats(17)
    reference = data.batch(128)
    fixed_z = torch.randn(64, LATENT).to(device)

    gen, disc = Generator().to(device), Discriminator().to(device)
    ema = copy.deepcopy(gen).requires_grad_(False).eval()
    g_opt = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.0, 0.99))
    d_opt = torch.optim.Adam(disc.parameters(), lr=2e-3, betas=(0.0, 0.99))
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(o, 0.985) for o in (g_opt, d_opt)]

    for step in range(STEPS):
        noise_std = 0.2 * (1.0 - step / STEPS) + 0.01
        real = data.batch(BATCH).to(device)
        d_loss = disc_step(gen, disc, d_opt, real, noise_std, regularize=step % R1_EVERY == 0)
        if step < WARMUP_DISC:
            continue
        g_loss = gen_step(gen, disc, ema, g_opt, noise_std, device)
        for s in schedulers:
            s.step()
        if (step + 1) % SAMPLE_EVERY == 0:
            gap, peak = sample_stats(ema, fixed_z, reference)
            print(f"step {step + 1:3d}  d {d_loss.item():.3f}  g {g_loss.item():.3f}  gap {gap:.3f}  r-peak {peak:.2f}")


if __name__ == "__main__":
    main()
