"""Sleep staging from 30 s EEG epochs: patch embedding, small transformer, 5 classes."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    leads: int = 2
    length: int = 240
    patch: int = 20
    dim: int = 32
    heads: int = 4
    depth: int = 1
    stages: int = 5


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.head_dim = cfg.dim // cfg.heads
        self.proj = nn.Linear(cfg.dim, cfg.dim)
        self.value = nn.Linear(cfg.dim, cfg.dim)
        self.key = nn.Linear(cfg.dim, cfg.dim)
        self.query = nn.Linear(cfg.dim, cfg.dim)

    def split(self, t):
        return t.unflatten(-1, (-1, self.head_dim))

    def forward(self, h):
        v, k, q = self.split(self.value(h)), self.split(self.key(h)), self.split(self.query(h))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * self.head_dim ** -0.5
        y = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)
        return self.proj(y.flatten(2))


class FeedForward(nn.Sequential):
    def __init__(self, cfg):
        super().__init__(nn.Linear(cfg.dim, 2 * cfg.dim), nn.GELU(), nn.Linear(2 * cfg.dim, cfg.dim))


class Residual(nn.Module):
    def __init__(self, cfg, fn):
        super().__init__()
        self.fn = fn
        self.norm = nn.LayerNorm(cfg.dim)

    def forward(self, x):
        return self.fn(self.norm(x)) + x


class SleepNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.head = nn.Linear(cfg.dim, cfg.stages)
        self.norm = nn.LayerNorm(cfg.dim)
        self.blocks = nn.Sequential()
        for _ in range(cfg.depth):
            self.blocks.append(Residual(cfg, Attention(cfg)))
            self.blocks.append(Residual(cfg, FeedForward(cfg)))
        self.pos = nn.Parameter(0.02 * torch.randn(1, cfg.length // cfg.patch, cfg.dim))
        self.embed = nn.Conv1d(cfg.leads, cfg.dim, cfg.patch, stride=cfg.patch)

    def forward(self, x):
        tokens = self.embed(x).permute(0, 2, 1)
        tokens = self.norm(self.blocks(self.pos + tokens))
        return self.head(tokens.mean(1))


class WeightedCE(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.register_buffer("weight", weight)

    def forward(self, logits, y):
        logp = F.log_softmax(logits, dim=1)
        return F.nll_loss(logp, y, weight=self.weight)


def param_groups(model, wd):
    matrices = [p for n, p in model.named_parameters() if p.ndim > 1 and n != "pos"]
    rest = [p for n, p in model.named_parameters() if p.ndim <= 1 or n == "pos"]
    return [{"params": rest, "weight_decay": 0.0}, {"params": matrices, "weight_decay": wd}]


class Trainer:
    def __init__(self, model, criterion, device):
        self.model = model.to(device)
        self.criterion = criterion.to(device)
        self.device = device
        self.opt = torch.optim.SGD(param_groups(model, 1e-4), lr=0.03, momentum=0.9)

    def step(self, batch):
        x, y = (t.to(self.device) for t in batch)
        self.opt.zero_grad()
        loss = self.criterion(self.model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        torch_xla.sync()
        return loss


def epochs_of(cfg, n, rng, batch=8):
    for _ in range(n):
        y = rng.integers(0, cfg.stages, batch)
        t = np.arange(cfg.length) / 20.0
        x = np.sin(t[None, None] * (1 + y[:, None, None])) + 0.3 * rng.standard_normal((batch, cfg.leads, cfg.length))
        yield torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)


def main(steps=5):
    torch.manual_seed(4)
    cfg = Config()
    trainer = Trainer(SleepNet(cfg), WeightedCE(torch.tensor([1.0, 2.5, 0.7, 1.6, 1.2])), xm.xla_device())
    for i, batch in enumerate(epochs_of(cfg, steps, np.random.default_rng(9))):
        print(i, f"{trainer.step(batch).item():.6f}")
    return trainer.model


if __name__ == "__main__":
    main()
