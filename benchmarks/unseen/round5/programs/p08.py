"""Data-parallel sequence tagger with SPMD; long shards go to the fastest host cores."""
import os

os.environ.setdefault("CPU_NUM_DEVICES", "4")

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.distributed.spmd as xs
import torch_xla.runtime as xr


@dataclass
class TaggerConfig:
    vocab: int = 120
    tags: int = 9
    dim: int = 24
    seq: int = 20
    shard: int = 4
    steps: int = 36
    lr: float = 3e-3


class Tagger(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.vocab, cfg.dim, padding_idx=0)
        self.conv = nn.Conv1d(cfg.dim, cfg.dim, 3, padding=1)
        self.ff = nn.Sequential(nn.Linear(cfg.dim, 2 * cfg.dim), nn.GELU(),
                                nn.Linear(2 * cfg.dim, cfg.dim))
        self.norm = nn.LayerNorm(cfg.dim)
        self.out = nn.Linear(cfg.dim, cfg.tags)

    def forward(self, tokens):
        x = self.emb(tokens)
        x = x + self.conv(x.transpose(1, 2)).transpose(1, 2)
        return self.out(self.norm(x + self.ff(x)))


class Sentences:
    """Yields global batches that are already cut in one shard per device."""

    def __init__(self, cfg, shards, seed=0):
        self.cfg, self.shards = cfg, shards
        self.rng = np.random.default_rng(seed)

    def __iter__(self):
        cfg = self.cfg
        while True:
            n = cfg.shard * self.shards
            lengths = self.rng.integers(4, cfg.seq + 1, n)
            tokens = self.rng.integers(1, cfg.vocab, (n, cfg.seq))
            keep = np.arange(cfg.seq)[None] < lengths[:, None]
            tokens = np.where(keep, tokens, 0)
            tags = np.where(keep, tokens % cfg.tags, -100)
            yield tokens, tags, lengths


class Placement:
    """Keeps a speed estimate of every device and decides where the shards live."""

    def __init__(self, devices):
        self.speed = np.linspace(1.0, 0.85, devices)
        self.devices = devices

    def assign(self, lengths):
        load = lengths.reshape(self.devices, -1).sum(1)
        order = np.empty(self.devices, dtype=int)
        order[np.argsort(-load)] = np.argsort(-self.speed)
        return xs.Mesh(order, (self.devices,), ("data",))


class Runner:
    def __init__(self, cfg):
        xr.use_spmd()
        torch.manual_seed(0)
        self.cfg = cfg
        self.devices = xr.global_runtime_device_count()
        self.device = torch_xla.device()
        self.model = Tagger(cfg).to(self.device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=0.01)
        self.placement = Placement(self.devices)

    def shard(self, array, mesh):
        t = torch.from_numpy(array).to(self.device)
        xs.mark_sharding(t, mesh, ("data", None))
        return t

    def step(self, tokens, tags, lengths):
        mesh = self.placement.assign(lengths)
        tokens, tags = self.shard(tokens, mesh), self.shard(tags, mesh)
        logits = self.model(tokens)
        loss = F.cross_entropy(logits.reshape(-1, self.cfg.tags), tags.reshape(-1),
                               ignore_index=-100)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss

    def run(self):
        print(f"{self.devices} devices")
        for step, (tokens, tags, lengths) in enumerate(Sentences(self.cfg, self.devices)):
            if step == self.cfg.steps:
                break
            loss = self.step(tokens, tags, lengths)
            if step % 10 == 0:
                print(f"step {step:3d} loss {loss.item():.4f} tokens {lengths.sum()}", flush=True)


if __name__ == "__main__":
    Runner(TaggerConfig()).run()
