"""DDPM on 8x8 digits: small U-Net, epsilon prediction, averaged weights for sampling."""
import copy
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from sklearn.datasets import load_digits


@dataclass
class Config:
    base: int = 16
    time_dim: int = 32
    timesteps: int = 200
    batch_size: int = 8
    lr: float = 2e-4
    steps: int = 26
    ema_decay: float = 0.995
    ema_start: int = 10
    ema_every: int = 10
    seed: int = 0


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000.0) * torch.arange(half, device=t.device, dtype=torch.float32) / half)
    args = t.float()[:, None] * freqs[None]
    return torch.cat([args.sin(), args.cos()], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, c_in, c_out, time_dim, groups=4):
        super().__init__()
        self.norm1 = nn.GroupNorm(groups, c_in)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, padding=1)
        self.temb = nn.Linear(time_dim, c_out)
        self.norm2 = nn.GroupNorm(groups, c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1)
        self.skip = nn.Conv2d(c_in, c_out, 1) if c_in != c_out else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.temb(t)[:, :, None, None]
        h = self.conv2(F.silu(self.norm2(h)))
        return h + self.skip(x)


class UNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c, td = cfg.base, cfg.time_dim
        self.time_dim = td
        self.time_mlp = nn.Sequential(nn.Linear(td, td), nn.SiLU())
        self.stem = nn.Conv2d(1, c, 3, padding=1)
        self.down = nn.Conv2d(c, c, 3, stride=2, padding=1)
        self.mid = ResBlock(c, c, td)
        self.up = nn.ConvTranspose2d(c, c, 2, stride=2)
        self.out = ResBlock(2 * c, c, td)
        self.head = nn.Conv2d(c, 1, 3, padding=1)

    def forward(self, x, t):
        temb = self.time_mlp(timestep_embedding(t, self.time_dim))
        s = self.stem(x)
        h = self.mid(self.down(F.silu(s)), temb)
        h = self.out(torch.cat([self.up(h), s], dim=1), temb)
        return self.head(F.silu(h))


class GaussianDiffusion:
    def __init__(self, cfg, device):
        betas = torch.linspace(1e-4, 0.02, cfg.timesteps)
        abar = torch.cumprod(1.0 - betas, dim=0)
        self.sqrt_abar = abar.sqrt().to(device)
        self.sqrt_1m_abar = (1.0 - abar).sqrt().to(device)

    def q_sample(self, x0, t, noise):
        a = self.sqrt_abar[t][:, None, None, None]
        b = self.sqrt_1m_abar[t][:, None, None, None]
        return a * x0 + b * noise

    def loss(self, model, x0, t, noise):
        return F.mse_loss(model(self.q_sample(x0, t, noise), t), noise)


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.mul_(self.decay).add_(p, alpha=1.0 - self.decay)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        self.device = torch_xla.device()
        self.model = UNet(cfg).to(self.device)
        self.ema = EMA(self.model, cfg.ema_decay)
        self.diffusion = GaussianDiffusion(cfg, self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=cfg.lr, momentum=0.9)
        images = torch.tensor(load_digits().images, dtype=torch.float32)
        self.images = (images / 8.0 - 1.0)[:, None]
        torch_xla.sync()

    def batch(self):
        idx = torch.randint(0, len(self.images), (self.cfg.batch_size,))
        x0 = self.images[idx]
        t = torch.randint(0, self.cfg.timesteps, (self.cfg.batch_size,))
        return x0.to(self.device), t.to(self.device), torch.randn_like(x0).to(self.device)

    def train_step(self, step):
        x0, t, noise = self.batch()
        self.optimizer.zero_grad()
        loss = self.diffusion.loss(self.model, x0, t, noise)
        loss.backward()
        self.optimizer.step()
        if step >= self.cfg.ema_start and step % self.cfg.ema_every == 0:
            self.ema.update(self.model)
        return loss.detach()

    def run(self):
        for step in range(self.cfg.steps):
            loss = self.train_step(step)
            torch_xla.sync()
            if step % 5 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    Trainer(Config()).run()
