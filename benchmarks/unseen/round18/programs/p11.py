"""Audio tagging on short log-mel clips.

Residual 1-d conv tower with stochastic depth (Huang et al.), multi-label BCE.
The survival probability falls linearly from the first to the last block.
"""
import logging
import math
import random
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

log = logging.getLogger("tagger")


@dataclass
class Config:
    mels: int = 20
    frames: int = 32
    width: int = 16
    depth: int = 5
    tags: int = 7
    batch: int = 12
    steps: int = 40
    warmup: int = 8
    peak_lr: float = 4e-2
    last_survival: float = 0.6
    eval_every: int = 10
    eval_batches: int = 3
    seed: int = 17


class ClipStore:
    """Synthetic clips: a tag is a bump in a mel band somewhere in time."""

    def __init__(self, cfg, seed):
        self.cfg = cfg
        self.rng = np.random.default_rng(seed)

    def draw(self):
        c = self.cfg
        x = self.rng.normal(0, 0.4, (c.batch, c.mels, c.frames)).astype(np.float32)
        y = (self.rng.random((c.batch, c.tags)) < 0.3).astype(np.float32)
        for b in range(c.batch):
            for t in np.flatnonzero(y[b]):
                at = self.rng.integers(0, c.frames - 4)
                x[b, 2 * t:2 * t + 3, at:at + 4] += 1.5
        return torch.from_numpy(x), torch.from_numpy(y)


class Block(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width, 1))
        self.time = nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation)

    def forward(self, x):
        x = self.gain * x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-5)
        return F.silu(self.time(x))


class Tower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.stem = nn.Conv1d(cfg.mels, cfg.width, 3, padding=1)
        self.blocks = nn.ModuleList(Block(cfg.width, 2 ** (i % 3)) for i in range(cfg.depth))
        self.head = nn.Linear(cfg.width, cfg.tags)
        slope = (1.0 - cfg.last_survival) / cfg.depth
        self.survival = [1.0 - slope * (i + 1) for i in range(cfg.depth)]
        self.coin = random.Random(cfg.seed)

    def draw_scales(self):
        """One scale per block: the inverse survival rate, or zero when it is dropped."""
        if not self.training:
            return [1.0] * len(self.blocks)
        return [1.0 / p if self.coin.random() < p else 0.0 for p in self.survival]

    def forward(self, x):
        x = self.stem(x)
        # multiply instead of branching: every block is always in the program
        for block, scale in zip(self.blocks, self.draw_scales()):
            x = x + scale * block(x)
        return self.head(x.mean(-1))


def lr_at(cfg, step):
    if step < cfg.warmup:
        return cfg.peak_lr * (step + 1) / cfg.warmup
    t = (step - cfg.warmup) / max(1, cfg.steps - cfg.warmup)
    return cfg.peak_lr * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * t)))


@torch.no_grad()
def evaluate(model, store, cfg, device):
    model.eval()
    hits = torch.zeros((), device=device)
    for _ in range(cfg.eval_batches):
        x, y = (t.to(device) for t in store.draw())
        hits += ((model(x) > 0).float() == y).float().mean()
        torch_xla.sync()
    model.train()
    return hits.item() / cfg.eval_batches


def main():
    logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = xm.xla_device()
    model = Tower(cfg).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.peak_lr, momentum=0.9, nesterov=True)
    train, held = ClipStore(cfg, 1), ClipStore(cfg, 2)

    smooth = torch.zeros((), device=device)
    for step in range(cfg.steps):
        for group in opt.param_groups:
            group["lr"] = lr_at(cfg, step)
        x, y = (t.to(device) for t in train.draw())
        loss = F.binary_cross_entropy_with_logits(model(x), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        smooth = 0.9 * smooth + 0.1 * loss.detach()
        torch_xla.sync()
        if step % 6 == 5:
            log.info("step %d loss %.4f", step + 1, smooth.item())
        if (step + 1) % cfg.eval_every == 0:
            log.info("step %d held-out accuracy %.3f", step + 1, evaluate(model, held, cfg, device))
    log.info("done")


if __name__ == "__main__":
    main()
