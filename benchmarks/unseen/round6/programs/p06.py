"""Denoising diffusion on 2-channel 1-D signals with preview sampling."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

TIMESTEPS = 100
LENGTH = 32
PREVIEW_STEPS = 10


def cosine_betas(n):
    def f(t):
        return math.cos((t / n + 0.008) / 1.008 * math.pi / 2) ** 2
    return torch.tensor([min(1 - f(i + 1) / f(i), 0.999) for i in range(n)])


class Schedule:
    def __init__(self, n, device):
        betas = cosine_betas(n)
        bar = torch.cumprod(1.0 - betas, 0)
        self.n = n
        self.bar = bar.to(device)
        self.sqrt_bar = bar.sqrt().to(device)
        self.sqrt_one_minus = (1 - bar).sqrt().to(device)

    def noisy(self, x, noise, t):
        a = self.sqrt_bar[t][:, None, None]
        b = self.sqrt_one_minus[t][:, None, None]
        return a * x + b * noise

    def ddim_update(self, x, eps, t, t_prev):
        x0 = (x - self.sqrt_one_minus[t] * eps) / self.sqrt_bar[t]
        x0 = x0.clamp(-2, 2)
        return self.sqrt_bar[t_prev] * x0 + self.sqrt_one_minus[t_prev] * eps


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        half = dim // 2
        self.register_buffer("freq", torch.exp(-math.log(1000.0) * torch.arange(half) / half))
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        a = t.float()[:, None] * self.freq
        return self.mlp(torch.cat([a.sin(), a.cos()], -1))


class Denoiser(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.time = TimeEmbedding(width)
        self.inp = nn.Conv1d(2, width, 3, padding=1)
        self.mid = nn.ModuleList([nn.Conv1d(width, width, 3, padding=2 ** i, dilation=2 ** i) for i in range(3)])
        self.norm = nn.ModuleList([nn.GroupNorm(4, width) for _ in range(3)])
        self.out = nn.Conv1d(width, 2, 3, padding=1)

    def forward(self, x, t):
        h = self.inp(x)
        e = self.time(t)[:, :, None]
        for conv, norm in zip(self.mid, self.norm):
            h = h + conv(F.silu(norm(h) + e))
        return self.out(F.silu(h))


class Previewer:
    """Short deterministic sampling run; the grid is re-drawn each time."""

    def __init__(self, schedule, seed):
        self.s, self.g = schedule, torch.Generator().manual_seed(seed)

    def grid(self):
        steps = torch.randperm(self.s.n - 1, generator=self.g)[:PREVIEW_STEPS] + 1
        return sorted(steps.tolist(), reverse=True) + [0]

    @torch.no_grad()
    def run(self, model, n, device):
        model.eval()
        x = torch.randn(n, 2, LENGTH, generator=self.g).to(device)
        grid = self.grid()
        for t, t_prev in zip(grid[:-1], grid[1:]):
            eps = model(x, torch.full((n,), t, device=device))
            x = self.s.ddim_update(x, eps, t, t_prev)
            torch_xla.sync()
        model.train()
        return x.cpu()


def waves(n, g):
    phase = torch.rand(n, 1, generator=g) * 2 * math.pi
    freq = 1 + torch.randint(0, 3, (n, 1), generator=g)
    axis = torch.linspace(0, 2 * math.pi, LENGTH)[None]
    return torch.stack([torch.sin(freq * axis + phase), torch.cos(freq * axis + phase)], 1)


def train_step(model, opt, schedule, x, g):
    device = next(model.parameters()).device
    t = torch.randint(0, TIMESTEPS, (x.shape[0],), generator=g).to(device)
    noise = torch.randn(x.shape, generator=g).to(device)
    pred = model(schedule.noisy(x.to(device), noise, t), t)
    loss = F.mse_loss(pred, noise)
    opt.zero_grad()
    loss.backward()
    opt.step()
    torch_xla.sync()
    return loss.detach()


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    g = torch.Generator().manual_seed(1)
    model = Denoiser().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = Schedule(TIMESTEPS, device)
    previewer = Previewer(schedule, 5)
    torch_xla.sync()
    for step in range(40):
        loss = train_step(model, opt, schedule, waves(16, g), g)
        if (step + 1) % 10 == 0:
            sample = previewer.run(model, 4, device)
            print(step + 1, f"loss {loss.item():.4f} sample std {sample.std():.3f}")


if __name__ == "__main__":
    main()
