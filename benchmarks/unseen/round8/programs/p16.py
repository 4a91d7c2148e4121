"""Class-conditional diffusion on 2-D points, trained for classifier-free guidance."""
import logging
import math
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("diffusion")


@dataclass
class Config:
    seed: int = 6
    steps: int = 32
    batch_size: int = 32
    classes: int = 4
    dim: int = 24
    timesteps: int = 50
    drop_prob: float = 0.15
    lr: float = 2e-2
    ema: float = 0.95


class Schedule:
    def __init__(self, timesteps, device):
        beta = torch.linspace(1e-3, 0.08, timesteps)
        self.bar = torch.cumprod(1 - beta, 0).to(device)

    def add_noise(self, x, noise, t):
        a = self.bar[t][:, None]
        return a.sqrt() * x + (1 - a).sqrt() * noise


class Denoiser(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        freq = torch.exp(torch.linspace(0, -4, cfg.dim // 2))
        self.register_buffer("freq", freq)
        self.inp = nn.Linear(2, cfg.dim)
        self.time = nn.Linear(cfg.dim, cfg.dim)
        self.label = nn.Embedding(cfg.classes, cfg.dim)
        self.null = nn.Parameter(torch.zeros(cfg.dim))
        self.out = nn.Sequential(nn.SiLU(), nn.Linear(cfg.dim, cfg.dim), nn.SiLU(), nn.Linear(cfg.dim, 2))

    def forward(self, x, t, label=None):
        angle = t[:, None].float() * self.freq
        h = self.inp(x) + self.time(torch.cat([angle.sin(), angle.cos()], -1))
        h = h + (self.null if label is None else self.label(label))
        return self.out(h)


class Conditioning:
    """Hides the label from time to time so that the model also learns the unconditional score."""

    def __init__(self, drop_prob, seed):
        self.drop_prob = drop_prob
        self.rng = random.Random(seed)

    def __call__(self, label):
        return None if self.rng.random() < self.drop_prob else label


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow, model.parameters()):
            s.mul_(self.decay).add_(p, alpha=1 - self.decay)


def sample_rings(g, cfg):
    label = torch.randint(0, cfg.classes, (cfg.batch_size,), generator=g)
    angle = torch.rand(cfg.batch_size, generator=g) * 2 * math.pi
    radius = label.float() + 1 + 0.05 * torch.randn(cfg.batch_size, generator=g)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], -1) / cfg.classes, label


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    g = torch.Generator().manual_seed(cfg.seed)
    device = xm.xla_device()
    model = Denoiser(cfg).to(device)
    schedule, conditioning, ema = Schedule(cfg.timesteps, device), Conditioning(cfg.drop_prob, cfg.seed), EMA(model, cfg.ema)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr)
    running = []
    for step in range(cfg.steps):
        x, label = sample_rings(g, cfg)
        t = torch.randint(0, cfg.timesteps, (cfg.batch_size,), generator=g)
        x, label, t = x.to(device), label.to(device), t.to(device)
        noise = torch.randn_like(x)
        pred = model(schedule.add_noise(x, noise, t), t, conditioning(label))
        loss = F.mse_loss(pred, noise)
        opt.zero_grad(set_to_none=False)
        loss.backward()
        opt.step()
        ema.update(model)
        torch_xla.sync()
        running.append(loss.detach())
        if (step + 1) % 8 == 0:
            log.info("step %d loss %.4f", step + 1, sum(v.item() for v in running[-8:]) / 8)


if __name__ == "__main__":
    main()
