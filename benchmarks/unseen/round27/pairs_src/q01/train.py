"""Patch transformer for hourly load forecasting (single target, multi-horizon)."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    context: int = 48
    horizon: int = 12
    patch: int = 8
    d_model: int = 24
    heads: int = 3
    layers: int = 1
    batch_size: int = 8
    lr: float = 2e-3
    weight_decay: float = 1e-2
    l1_beta: float = 0.7
    steps: int = 10
    seed: int = 17


class LoadSeries(Dataset):
    def __init__(self, cfg, n=80):
        self.cfg = cfg
        g = torch.Generator().manual_seed(cfg.seed)
        t = torch.arange(n + cfg.context + cfg.horizon, dtype=torch.float32)
        daily = torch.sin(2 * math.pi * t / 24)
        weekly = 0.4 * torch.sin(2 * math.pi * t / 168)
        self.series = daily + weekly + 0.1 * torch.randn(t.shape, generator=g)
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        c, h = self.cfg.context, self.cfg.horizon
        return self.series[i:i + c], self.series[i + c:i + c + h]


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm_a = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.out = nn.Linear(d, d)
        self.norm_b = nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d))

    def forward(self, x):
        b, n, d = x.shape
        qkv = self.qkv(self.norm_a(x)).view(b, n, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        att = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        y = (att.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)
        x = x + self.out(y)
        return x + self.mlp(self.norm_b(x))


class PatchForecaster(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.patch = cfg.patch
        n = cfg.context // cfg.patch
        self.embed = nn.Linear(cfg.patch, cfg.d_model)
        self.pos = nn.Parameter(0.02 * torch.randn(n, cfg.d_model))
        self.blocks = nn.ModuleList(Block(cfg.d_model, cfg.heads) for _ in range(cfg.layers))
        self.head = nn.Linear(n * cfg.d_model, cfg.horizon)

    def forward(self, x):
        # instance normalisation of the context, undone on the forecast
        mu = x.mean(1, keepdim=True)
        sd = (x.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        z = ((x - mu) / sd).unflatten(1, (-1, self.patch))
        h = self.embed(z) + self.pos
        for blk in self.blocks:
            h = blk(h)
        return self.head(h.flatten(1)) * sd + mu


def train(cfg):
    torch.manual_seed(cfg.seed)
    device = xm.xla_device()
    model = PatchForecaster(cfg).to(device)
    opt = torch.optim.RAdam(model.parameters(), lr=cfg.lr, betas=(0.9, 0.999),
                            weight_decay=cfg.weight_decay, decoupled_weight_decay=True)
    criterion = nn.SmoothL1Loss(beta=cfg.l1_beta)
    loader = DataLoader(LoadSeries(cfg), batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)

    history = []
    for step, (ctx, target) in enumerate(loader):
        opt.zero_grad()
        loss = criterion(model(ctx), target)
        loss.backward()
        opt.step()
        history.append(loss.detach())
        if step + 1 >= cfg.steps:
            break
    xm.mark_step()
    print("loss:", " ".join(f"{v.item():.4f}" for v in history))


if __name__ == "__main__":
    train(Config())
