"""ViT forecaster on a lat-lon grid, one 6 h step (PyTorch/XLA)."""
import os

os.environ["XLA_IR_DEBUG"] = "1"
os.environ["XLA_HLO_DEBUG"] = "1"

import argparse
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class ModelConfig:
    lat: int = 8
    lon: int = 16
    prognostic: int = 5
    forcing: int = 2
    patch: int = 4
    dim: int = 16
    heads: int = 2
    depth: int = 1


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.heads
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.proj = nn.Linear(cfg.dim, cfg.dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = F.softmax(q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5, dim=-1)
        return self.proj((att @ v).transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.norm1 = nn.LayerNorm(cfg.dim)
        self.attn = Attention(cfg)
        self.norm2 = nn.LayerNorm(cfg.dim)
        self.fc1 = nn.Linear(cfg.dim, 2 * cfg.dim)
        self.fc2 = nn.Linear(2 * cfg.dim, cfg.dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Forecaster(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        p, inputs = cfg.patch, cfg.prognostic + cfg.forcing
        tokens = (cfg.lat // p) * (cfg.lon // p)
        self.embed = nn.Conv2d(inputs, cfg.dim, p, stride=p)
        self.pos = nn.Parameter(torch.randn(1, tokens, cfg.dim) * 0.02)
        self.blocks = nn.ModuleList([Block(cfg) for _ in range(cfg.depth)])
        self.norm = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.prognostic * p * p)

    def forward(self, state, forcing):
        cfg, p = self.cfg, self.cfg.patch
        x = torch.cat([state, forcing], dim=1)
        x = self.embed(x).flatten(2).transpose(1, 2) + self.pos
        for block in self.blocks:
            x = block(x)
        x = self.head(self.norm(x))
        x = x.view(-1, cfg.lat // p, cfg.lon // p, cfg.prognostic, p, p)
        x = x.permute(0, 3, 1, 4, 2, 5).reshape(-1, cfg.prognostic, cfg.lat, cfg.lon)
        return x


class LatWeightedMSE(nn.Module):
    def __init__(self, cfg, channel_weight):
        super().__init__()
        lat = np.deg2rad(np.linspace(-90, 90, cfg.lat + 2)[1:-1])
        area = np.cos(lat) / np.cos(lat).mean()
        self.register_buffer("area", torch.tensor(area, dtype=torch.float32).view(1, 1, -1, 1))
        self.register_buffer("channel", torch.tensor(channel_weight).view(1, -1, 1, 1))

    def forward(self, pred, target):
        err = self.area * (pred - target).square()
        return (self.channel * err).mean(), err.detach().mean(dim=(0, 2, 3)).sqrt()


def era_batches(cfg, steps, batch=2, seed=21):
    """Advected random fields; normalised like the reanalysis archive."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        state = rng.normal(size=(batch, cfg.prognostic, cfg.lat, cfg.lon))
        state = state + np.roll(state, 1, -1) + np.roll(state, -1, -1)
        target = 0.9 * np.roll(state, 1, -1) + 0.1 * rng.normal(size=state.shape)
        forcing = rng.normal(size=(batch, cfg.forcing, cfg.lat, cfg.lon))
        yield [torch.from_numpy(a.astype(np.float32)) for a in (state, forcing, target)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--weight-decay", type=float, default=0.03)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()

    torch.manual_seed(21)
    device = torch_xla.device()
    cfg = ModelConfig()
    model = Forecaster(cfg).to(device)
    criterion = LatWeightedMSE(cfg, [1.0, 0.5, 0.5, 2.0, 0.1]).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95),
                                  weight_decay=args.weight_decay)
    torch_xla.sync()
    for step, batch in enumerate(era_batches(cfg, args.steps)):
        state, forcing, target = [t.to(device) for t in batch]
        optimizer.zero_grad(set_to_none=True)
        loss, rmse = criterion(model(state, forcing), target)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(step, round(loss.item(), 4), [round(v, 3) for v in rmse.tolist()], flush=True)


if __name__ == "__main__":
    main()
