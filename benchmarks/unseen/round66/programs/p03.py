"""Consistency training (Song et al., 2023) on two-dimensional point clouds."""
import copy
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch_xla


@dataclass
class Config:
    total_steps: int = 30
    batch_size: int = 128
    sigma_min: float = 0.002
    sigma_max: float = 80.0
    sigma_data: float = 0.5
    rho: float = 7.0
    s0: int = 2
    s1: int = 150
    mu0: float = 0.95
    lr: float = 1e-3
    seed: int = 21


def checkerboard(n, generator):
    x = torch.rand(n, generator=generator) * 4 - 2
    offset = torch.randint(0, 2, (n,), generator=generator) * 2.0
    y = torch.rand(n, generator=generator) - offset + torch.floor(x) % 2
    return torch.stack([x, y], dim=1) * 0.35


class FourierFeatures(nn.Module):
    def __init__(self, dim, scale=2.0):
        super().__init__()
        self.register_buffer("freq", torch.randn(dim // 2) * scale)

    def forward(self, t):
        ang = t[:, None] * self.freq[None] * 2 * math.pi
        return torch.cat([ang.sin(), ang.cos()], dim=-1)


class ConsistencyNet(nn.Module):
    """f(x, t) = c_skip(t) x + c_out(t) F(x, t), the identity at sigma_min."""

    def __init__(self, cfg, width=96):
        super().__init__()
        self.cfg = cfg
        self.embed = FourierFeatures(32)
        self.inp = nn.Linear(2 + 32, width)
        self.body = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.out = nn.Linear(width, 2)

    def forward(self, x, sigma):
        sd, smin = self.cfg.sigma_data, self.cfg.sigma_min
        c_skip = sd ** 2 / ((sigma - smin) ** 2 + sd ** 2)
        c_out = sd * (sigma - smin) / (sd ** 2 + sigma ** 2).sqrt()
        c_in = 1.0 / (sigma ** 2 + sd ** 2).sqrt()
        h = self.inp(torch.cat([x * c_in[:, None], self.embed(sigma.log() / 4)], dim=-1))
        h = h + self.body(h)
        return c_skip[:, None] * x + c_out[:, None] * self.out(h)


def num_scales(cfg, k):
    frac = k / cfg.total_steps
    return math.ceil(math.sqrt(frac * ((cfg.s1 + 1) ** 2 - cfg.s0 ** 2) + cfg.s0 ** 2) - 1) + 1


def karras_sigmas(cfg, n, device):
    ramp = torch.linspace(0, 1, n, device=device)
    lo, hi = cfg.sigma_min ** (1 / cfg.rho), cfg.sigma_max ** (1 / cfg.rho)
    return (lo + ramp * (hi - lo)) ** cfg.rho


def pseudo_huber(a, b, c=0.03):
    return (((a - b) ** 2).sum(dim=-1) + c ** 2).sqrt() - c


@torch.no_grad()
def ema_update(ema, model, decay):
    for pe, pm in zip(ema.parameters(), model.parameters()):
        pe.mul_(decay).add_(pm * (1.0 - decay))


def train(cfg):
    torch.manual_seed(cfg.seed)
    generator = torch.Generator().manual_seed(cfg.seed)
    device = torch_xla.device()
    model = ConsistencyNet(cfg).to(device)
    ema = copy.deepcopy(model).requires_grad_(False)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, betas=(0.9, 0.99))

    for k in range(cfg.total_steps):
        data = checkerboard(cfg.batch_size, generator).to(device)
        n = num_scales(cfg, k)
        sigmas = karras_sigmas(cfg, n, device)
        idx = torch.randint(0, n - 1, (cfg.batch_size,), generator=generator).to(device)
        lower, upper = sigmas[idx], sigmas[idx + 1]

        noise = torch.randn_like(data)
        pred = model(data + noise * upper[:, None], upper)
        with torch.no_grad():
            ref = ema(data + noise * lower[:, None], lower)
        weight = 1.0 / (upper - lower)
        loss = (weight * pseudo_huber(pred, ref)).mean()

        opt.zero_grad()
        loss.backward()
        opt.step()
        ema_update(ema, model, math.exp(cfg.s0 * math.log(cfg.mu0) / n))
        torch_xla.sync()

        if (k + 1) % 10 == 0:
            print(f"step {k + 1:3d}  scales {n:3d}  loss {loss.item():.4f}")
    return ema


@torch.no_grad()
def one_step_samples(ema, cfg, n):
    device = next(ema.parameters()).device
    x = torch.randn(n, 2, device=device) * cfg.sigma_max
    out = ema(x, torch.full((n,), cfg.sigma_max, device=device))
    torch_xla.sync()
    return out.cpu()


if __name__ == "__main__":
    config = Config()
    points = one_step_samples(train(config), config, 256)
    print("sample mean", [round(v, 3) for v in points.mean(0).tolist()])
