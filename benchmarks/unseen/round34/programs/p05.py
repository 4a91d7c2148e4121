"""Class-conditional diffusion on 2-D point clouds with a residual MLP denoiser."""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

T = 400
CLASSES = 3


def make_points(n, generator):
    """Ring, two moons and a cross, one class each."""
    y = torch.randint(0, CLASSES, (n,), generator=generator)
    a = torch.rand(n, generator=generator) * 2 * math.pi
    ring = torch.stack([a.cos(), a.sin()], 1)
    moon = torch.stack([a.cos() + (a > math.pi).float(), a.sin() * 0.7], 1) - 0.4
    arm = torch.stack([a / math.pi - 1, torch.zeros_like(a)], 1)
    flip = torch.rand(n, generator=generator) < 0.5
    cross = torch.where(flip[:, None], arm, arm.flip(1))
    x = torch.stack([ring, moon, cross])[y, torch.arange(n)]
    return x + 0.04 * torch.randn(n, 2, generator=generator), y


class Schedule(nn.Module):
    """Cosine noise schedule as buffers, so that it follows the model's device."""

    def __init__(self, steps, s=0.008):
        super().__init__()
        u = torch.linspace(0, 1, steps + 1)
        f = torch.cos((u + s) / (1 + s) * math.pi / 2) ** 2
        betas = (1 - f[1:] / f[:-1]).clamp(max=0.999)
        abar = torch.cumprod(1 - betas, 0)
        self.register_buffer("sqrt_abar", abar.sqrt())
        self.register_buffer("sqrt_1m_abar", (1 - abar).sqrt())
        self.register_buffer("snr_weight", (abar / (1 - abar)).clamp(max=5.0))

    def q_sample(self, x0, noise, t):
        return self.sqrt_abar[t] * x0 + self.sqrt_1m_abar[t] * noise


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.film = nn.Linear(dim, 2 * dim)
        self.fc = nn.Linear(dim, dim)

    def forward(self, h, c):
        scale, shift = self.film(c).chunk(2, -1)
        return h + self.fc(F.silu(self.norm(h) * (1 + scale) + shift))


class Denoiser(nn.Module):
    def __init__(self, dim=24, depth=2):
        super().__init__()
        self.dim = dim
        self.inp = nn.Linear(2, dim)
        self.label = nn.Embedding(CLASSES + 1, dim)      # last row: unconditional
        self.time = nn.Linear(dim, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.out = nn.Linear(dim, 2)
        nn.init.zeros_(self.out.weight)

    def time_embedding(self, t):
        half = self.dim // 2
        freq = torch.exp(-math.log(1e4) * torch.arange(half, device=t.device) / half)
        ang = t[:, None].float() * freq
        return self.time(torch.cat([ang.sin(), ang.cos()], -1))

    def forward(self, x, t, y):
        c = self.time_embedding(t) + self.label(y)
        h = self.inp(x)
        for blk in self.blocks:
            h = blk(h, c)
        return self.out(F.silu(h))


def drop_labels(y, p, generator):
    mask = torch.rand(y.shape, generator=generator) < p
    return torch.where(mask, torch.full_like(y, CLASSES), y)


@torch.no_grad()
def update_ema(ema, model, decay):
    for e, p in zip(ema.parameters(), model.parameters()):
        e.lerp_(p, 1 - decay)


def main(steps=24, batch=64, lr=2e-3):
    torch.manual_seed(0)
    random.seed(0)
    gen = torch.Generator().manual_seed(0)
    device = torch_xla.device()

    model = Denoiser().to(device)
    ema = Denoiser().to(device)
    ema.load_state_dict(model.state_dict())
    ema.requires_grad_(False)
    schedule = Schedule(T).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    t_order = random.sample(range(T), T)

    window = []
    for step in range(steps):
        x0, y = make_points(batch, gen)
        y = drop_labels(y, 0.1, gen)
        x0, y = x0.to(device), y.to(device)
        noise = torch.randn(batch, 2, generator=gen).to(device)
        t = t_order[step % T]

        xt = schedule.q_sample(x0, noise, t)
        t_batch = torch.tensor([t] * batch).to(device)
        pred = model(xt, t_batch, y)
        loss = F.mse_loss(pred, noise) * schedule.snr_weight[t].clamp(min=0.1)

        opt.zero_grad()
        loss.backward()
        for group in opt.param_groups:
            group["lr"] = lr * min(1.0, (step + 1) / 10)
        opt.step()
        update_ema(ema, model, decay=min(0.99, (1 + step) / (10 + step)))
        torch_xla.sync()

        window.append(loss.detach())
        if (step + 1) % 12 == 0:
            mean = sum(v.item() for v in window) / len(window)
            window.clear()
            print(f"step {step + 1} weighted mse {mean:.4f}")


if __name__ == "__main__":
    main()
