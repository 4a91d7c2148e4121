"""Adversarial synthesis of short seismic traces conditioned on magnitude class."""
import copy
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 8
TRACE = 64
CLASSES = 5
LATENT = 16
BATCH = 24
STEPS = 64
R1_EVERY = 8
R1_WEIGHT = 2.0
SAMPLE_EVERY = 16


class Generator(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.label = nn.Embedding(CLASSES, LATENT)
        self.fc = nn.Linear(2 * LATENT, width * (TRACE // 8))
        self.width = width
        self.stages = nn.ModuleList(nn.Conv1d(width, width, 5, padding=2) for _ in range(3))
        self.out = nn.Conv1d(width, 1, 7, padding=3)

    def forward(self, z, y):
        h = self.fc(torch.cat([z, self.label(y)], 1)).view(-1, self.width, TRACE // 8)
        for conv in self.stages:
            h = h.repeat_interleave(2, dim=2)
            h = F.leaky_relu(conv(h), 0.2)
        return torch.tanh(self.out(h))


class Critic(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.inp = nn.Conv1d(1, width, 7, padding=3)
        self.stages = nn.ModuleList(
            nn.Conv1d(width, width, 5, stride=2, padding=2) for _ in range(3))
        self.fc = nn.Linear(width * (TRACE // 8), width)
        self.score = nn.Linear(width, 1)
        self.label = nn.Embedding(CLASSES, width)

    def forward(self, x, y):
        h = F.leaky_relu(self.inp(x), 0.2)
        for conv in self.stages:
            h = F.leaky_relu(conv(h), 0.2)
        h = self.fc(h.flatten(1))
        return self.score(h).squeeze(1) + (h * self.label(y)).sum(1)


def real_traces(rng, n):
    """Damped bursts with P and S arrivals."""
    y = rng.integers(0, CLASSES, n)
    t = np.linspace(0, 1, TRACE)
    p, s = rng.uniform(0.05, 0.25, (n, 1)), rng.uniform(0.3, 0.5, (n, 1))
    f = rng.uniform(8, 14, (n, 1))
    amp = (0.2 + 0.15 * y)[:, None]

    def burst(t0, a):
        live = (t > t0).astype(np.float64)
        return a * live * np.exp(-9 * np.abs(t - t0)) * np.sin(2 * np.pi * f * (t - t0))

    x = burst(p, 0.5 * amp) + burst(s, amp) + 0.01 * rng.normal(size=(n, TRACE))
    return torch.from_numpy(x.astype(np.float32)).unsqueeze(1), torch.from_numpy(y)


def grad_penalty(critic, x, y):
    x = x.detach().requires_grad_(True)
    score = critic(x, y).sum()
    (g,) = torch.autograd.grad(score, x, create_graph=True)
    return g.pow(2).sum((1, 2)).mean()


@torch.no_grad()
def track(avg, net, decay):
    for a, p in zip(avg.parameters(), net.parameters()):
        a.lerp_(p, 1.0 - decay)


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    device = torch_xla.device()
    gen, critic = Generator().to(device), Critic().to(device)
    avg = copy.deepcopy(gen).requires_grad_(False)
    ratio = R1_EVERY / (R1_EVERY + 1)
    opt_g = torch.optim.Adam(gen.parameters(), lr=1e-3, betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(critic.parameters(), lr=1e-3 * ratio, betas=(0.0, 0.99 ** ratio))
    anneal = torch.optim.lr_scheduler.CosineAnnealingLR(opt_g, T_max=STEPS + 1, eta_min=1e-5)
    show_z = torch.randn(CLASSES, LATENT).to(device)
    show_y = torch.arange(CLASSES).to(device)
    xm.mark_step()

    for step in range(STEPS):
        x, y = (t.to(device) for t in real_traces(rng, BATCH))
        z = torch.randn(BATCH, LATENT, device=device)
        with torch.no_grad():
            fake = gen(z, y)
        d_loss = F.softplus(critic(fake, y)).mean() + F.softplus(-critic(x, y)).mean()
        if step % R1_EVERY == 0:
            d_loss = d_loss + 0.5 * R1_WEIGHT * R1_EVERY * grad_penalty(critic, x, y)
        opt_d.zero_grad(set_to_none=True)
        d_loss.backward()
        opt_d.step()
        xm.mark_step()

        z = torch.randn(BATCH, LATENT, device=device)
        critic.requires_grad_(False)
        g_loss = F.softplus(-critic(gen(z, y), y)).mean()
        opt_g.zero_grad(set_to_none=True)
        g_loss.backward()
        opt_g.step()
        critic.requires_grad_(True)
        anneal.step()
        track(avg, gen, min(0.995, (1 + step) / (10 + step)))
        xm.mark_step()

        if step % SAMPLE_EVERY == SAMPLE_EVERY - 1:
            with torch.no_grad():
                rms = avg(show_z, show_y).pow(2).mean((1, 2)).sqrt().cpu()
            line = " ".join(f"{v:.3f}" for v in rms.tolist())
            print(f"step {step + 1} d {d_loss.item():.3f} g {g_loss.item():.3f} rms {line}")
            if not math.isfinite(g_loss.item()):
                raise RuntimeError("diverged")


if __name__ == "__main__":
    main()
