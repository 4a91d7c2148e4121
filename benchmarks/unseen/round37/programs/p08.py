"""Diffusion model for tabular rows with self-conditioning, gradient accumulation and EMA."""
import copy
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

COLUMNS = 10
TIMESTEPS = 100
MICRO_BATCH = 32
ACCUMULATE = 2
UPDATES = 18
SAMPLE_STEPS = 5
SAMPLE_EVERY = 6


def cosine_alphas(timesteps, s=0.008):
    grid = torch.linspace(0, 1, timesteps + 1, dtype=torch.float64)
    bar = torch.cos((grid + s) / (1 + s) * math.pi / 2) ** 2
    betas = (1 - bar[1:] / bar[:-1]).clamp(max=0.999)
    return torch.cumprod(1 - betas, dim=0).float()


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        freqs = torch.exp(-math.log(1000) * torch.arange(dim // 2) / (dim // 2))
        self.register_buffer("freqs", freqs)
        self.proj = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        angle = t.float()[:, None] * self.freqs[None]
        return self.proj(torch.cat([angle.sin(), angle.cos()], dim=1))


class ResidualMLP(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 2 * dim)
        self.fc2 = nn.Linear(2 * dim, dim)

    def forward(self, x, temb):
        return x + self.fc2(F.silu(self.fc1(self.norm(x) + temb)))


class Denoiser(nn.Module):
    def __init__(self, columns=COLUMNS, dim=32, depth=2):
        super().__init__()
        self.inp = nn.Linear(2 * columns, dim)
        self.time = TimeEmbedding(dim)
        self.blocks = nn.ModuleList(ResidualMLP(dim) for _ in range(depth))
        self.out = nn.Linear(dim, columns)

    def forward(self, x, t, x_self):
        h = self.inp(torch.cat([x, x_self], dim=1))
        temb = self.time(t)
        for block in self.blocks:
            h = block(h, temb)
        return self.out(h)


class Diffusion:
    def __init__(self, device):
        self.alpha_bar = cosine_alphas(TIMESTEPS).to(device)
        self.device = device

    def loss(self, model, x0):
        t = torch.randint(0, TIMESTEPS, (x0.size(0),), device=self.device)
        ab = self.alpha_bar[t][:, None]
        noise = torch.randn_like(x0)
        xt = ab.sqrt() * x0 + (1 - ab).sqrt() * noise
        x_self = torch.zeros_like(x0)
        if random.random() < 0.5:
            with torch.no_grad():
                x_self = model(xt, t, x_self)
        return F.mse_loss(model(xt, t, x_self), x0)

    @torch.no_grad()
    def sample(self, model, n):
        x = torch.randn(n, COLUMNS, device=self.device)
        x_self = torch.zeros_like(x)
        times = torch.linspace(TIMESTEPS - 1, 0, SAMPLE_STEPS + 1).round().long().tolist()
        for now, nxt in zip(times[:-1], times[1:]):
            t = torch.tensor([now] * n).to(self.device)
            t_next = torch.tensor([nxt] * n).to(self.device)
            ab, ab_next = self.alpha_bar[t][:, None], self.alpha_bar[t_next][:, None]
            x_self = model(x, t, x_self).clamp(-4, 4)
            eps = (x - ab.sqrt() * x_self) / (1 - ab).sqrt()
            x = ab_next.sqrt() * x_self + (1 - ab_next).sqrt() * eps
            torch_xla.sync()
        return x.cpu()


@torch.no_grad()
def update_ema(ema, model, decay):
    for e, p in zip(ema.parameters(), model.parameters()):
        e.mul_(decay).add_(p, alpha=1 - decay)


def table_rows(generator):
    mix = torch.randn(COLUMNS, COLUMNS, generator=generator) / COLUMNS ** 0.5
    while True:
        latent = torch.randn(MICRO_BATCH, COLUMNS, generator=generator)
        yield torch.tanh(latent @ mix) + 0.1 * latent


def main():
    torch.manual_seed(42)
    random.seed(42)
    device = torch_xla.device()
    model = Denoiser().to(device)
    ema = copy.deepcopy(model).requires_grad_(False)
    diffusion = Diffusion(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    rows = table_rows(torch.Generator().manual_seed(42))
    total = torch.zeros((), device=device)
    torch_xla.sync()

    for update in range(1, UPDATES + 1):
        for _ in range(ACCUMULATE):
            loss = diffusion.loss(model, next(rows).to(device)) / ACCUMULATE
            loss.backward()
            total += loss.detach()
            torch_xla.sync()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        update_ema(ema, model, decay=0.98)
        torch_xla.sync()

        if update % SAMPLE_EVERY == 0:
            print(f"update {update} loss {total.item() / SAMPLE_EVERY:.4f}")
            total.zero_()
            fake = diffusion.sample(ema, 64)
            print(f"  column std {fake.std(dim=0).mean().item():.3f}")


if __name__ == "__main__":
    main()
