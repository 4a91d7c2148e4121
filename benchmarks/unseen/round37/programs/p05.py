"""GAN for single-lead ECG beats: non-saturating loss, lazy R1, averaged generator."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

LENGTH = 64
Z_DIM = 16
BATCH = 16
ITERS = 30
R1_GAMMA = 2.0
R1_INTERVAL = 4
EMA_HALF_LIFE = 200.0
EMA_RAMPUP = 0.05


class Generator(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.mapping = nn.Sequential(nn.Linear(Z_DIM, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32))
        self.start = nn.Parameter(torch.randn(1, ch, LENGTH // 8))
        self.style = nn.ModuleList(nn.Linear(32, 2 * ch) for _ in range(3))
        self.convs = nn.ModuleList(nn.Conv1d(ch, ch, 3, padding=1) for _ in range(3))
        self.to_signal = nn.Conv1d(ch, 1, 1)

    def forward(self, z):
        w = self.mapping(F.normalize(z, dim=1))
        x = self.start.expand(z.size(0), -1, -1)
        for style, conv in zip(self.style, self.convs):
            x = x.repeat_interleave(2, dim=2)
            scale, shift = style(w).unsqueeze(2).chunk(2, dim=1)
            x = F.leaky_relu(conv(x) * (1 + scale) + shift, 0.2)
        return self.to_signal(x)


class Discriminator(nn.Module):
    def __init__(self, ch=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, ch, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(ch, ch, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Conv1d(ch, ch, 5, stride=2, padding=2), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(ch * LENGTH // 8, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


def ecg_batches(rng):
    t = np.linspace(-1, 1, LENGTH)
    while True:
        shift = rng.normal(0, 0.05, (BATCH, 1))
        amp = rng.uniform(0.8, 1.2, (BATCH, 1))
        qrs = amp * np.exp(-((t - shift) / 0.05) ** 2)
        p = 0.2 * np.exp(-((t - shift + 0.4) / 0.1) ** 2)
        twave = 0.35 * np.exp(-((t - shift - 0.45) / 0.14) ** 2)
        x = qrs + p + twave + rng.normal(0, 0.02, (BATCH, LENGTH))
        yield torch.tensor(x[:, None], dtype=torch.float32)


def r1_penalty(disc, real):
    real = real.detach().requires_grad_(True)
    (grad,) = torch.autograd.grad(disc(real).sum(), real, create_graph=True)
    return grad.square().sum(dim=(1, 2)).mean()


@torch.no_grad()
def update_average(averaged, source, seen):
    half_life = min(EMA_HALF_LIFE, max(seen * EMA_RAMPUP, 1e-8))
    decay = 0.5 ** (BATCH / half_life)
    for p_avg, p in zip(averaged.parameters(), source.parameters()):
        p_avg.lerp_(p, 1 - decay)


def main():
    torch.manual_seed(8)
    rng = np.random.default_rng(8)
    device = torch_xla.device()

    gen = Generator().to(device)
    disc = Discriminator().to(device)
    gen_avg = copy.deepcopy(gen).eval().requires_grad_(False)
    ratio = R1_INTERVAL / (R1_INTERVAL + 1)
    opt_g = torch.optim.Adam(gen.parameters(), lr=2e-3, betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(disc.parameters(), lr=2e-3 * ratio, betas=(0.0, 0.99 ** ratio))
    preview_z = torch.randn(4, Z_DIM).to(device)
    loader = ecg_batches(rng)

    for it in range(ITERS):
        real = next(loader).to(device)

        disc.requires_grad_(True)
        with torch.no_grad():
            fake = gen(torch.randn(BATCH, Z_DIM, device=device))
        loss_d = F.softplus(disc(fake)).mean() + F.softplus(-disc(real)).mean()
        if it % R1_INTERVAL == 0:
            loss_d = loss_d + 0.5 * R1_GAMMA * R1_INTERVAL * r1_penalty(disc, real)
        opt_d.zero_grad(set_to_none=True)
        loss_d.backward()
        opt_d.step()
        xm.mark_step()

        disc.requires_grad_(False)
        fake = gen(torch.randn(BATCH, Z_DIM, device=device))
        loss_g = F.softplus(-disc(fake)).mean()
        opt_g.zero_grad(set_to_none=True)
        loss_g.backward()
        opt_g.step()
        update_average(gen_avg, gen, seen=(it + 1) * BATCH)
        xm.mark_step()

        if (it + 1) % 6 == 0:
            print(f"iter {it + 1} d {loss_d.item():.4f} g {loss_g.item():.4f}")
            with torch.no_grad():
                preview = gen_avg(preview_z)
            xm.mark_step()
            peak = preview.cpu().amax(dim=2).mean().item()
            print(f"  preview peak {peak:.3f}")


if __name__ == "__main__":
    main()
