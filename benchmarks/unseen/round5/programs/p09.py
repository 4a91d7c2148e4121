"""Decoder-only LM: length buckets, two micro-batches per update, scanned layers, eval."""
import math
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch_xla.experimental.scan_layers import scan_layers


@dataclass
class LMConfig:
    vocab: int = 96
    dim: int = 24
    heads: int = 2
    layers: int = 3
    buckets: tuple = (16, 24, 32)
    batch: int = 4
    accumulate: int = 2
    updates: int = 40
    eval_every: int = 8
    lr: float = 3e-3
    clip: float = 1.0


class DecoderLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg.dim
        self.h = cfg.heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.h, d // self.h).unbind(2)
        att = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(d // self.h)
        mask = torch.ones(t, t, device=x.device).tril()
        att = torch.softmax(att + (mask - 1) * 1e4, dim=-1)
        x = x + self.proj(torch.einsum("bhqk,bkhd->bqhd", att, v).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class LM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Embedding(max(cfg.buckets), cfg.dim)
        self.layers = nn.ModuleList(DecoderLayer(cfg) for _ in range(cfg.layers))
        self.norm = nn.LayerNorm(cfg.dim)

    def forward(self, ids):
        pos = torch.arange(ids.shape[1], device=ids.device)
        x = self.tok(ids) + self.pos(pos)
        x = scan_layers(self.layers, x, is_layer_pure=True)
        return self.norm(x) @ self.tok.weight.t()


class BucketSampler:
    """Draws documents, rounds their length up to the next bucket, pads with 0."""

    def __init__(self, cfg, seed):
        self.cfg, self.rng = cfg, random.Random(seed)

    def document(self, longest):
        n = self.rng.randrange(6, longest + 1)
        a, b = self.rng.randrange(1, 9), self.rng.randrange(90)
        return [1 + (a * i + b) % (self.cfg.vocab - 1) for i in range(n)]

    def batch(self):
        docs = [self.document(self.rng.choice(self.cfg.buckets)) for _ in range(self.cfg.batch)]
        longest = max(map(len, docs))
        size = next(b for b in self.cfg.buckets if b >= longest)
        return torch.tensor([d + [0] * (size - len(d)) for d in docs])


def lm_loss(model, ids):
    logits = model(ids)
    return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]),
                           ids[:, 1:].reshape(-1), ignore_index=0)


class Trainer:
    def __init__(self, cfg):
        torch.manual_seed(0)
        self.cfg, self.device = cfg, torch_xla.device()
        self.model = LM(cfg).to(self.device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, betas=(0.9, 0.98))
        self.train, self.valid = BucketSampler(cfg, 1), BucketSampler(cfg, 2)
        for p in self.model.parameters():
            p.grad = torch.zeros_like(p)
        torch_xla.sync()

    def micro_step(self):
        ids = self.train.batch().to(self.device)
        loss = lm_loss(self.model, ids) / self.cfg.accumulate
        loss.backward()
        torch_xla.sync()
        return loss.detach()

    def update(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip)
        self.opt.step()
        self.opt.zero_grad(set_to_none=False)
        torch_xla.sync()

    @torch.no_grad()
    def evaluate(self, batches=6):
        total = 0.0
        for _ in range(batches):
            loss = lm_loss(self.model, self.valid.batch().to(self.device))
            torch_xla.sync()
            total += loss.item()
        return total / batches

    def fit(self):
        for step in range(1, self.cfg.updates + 1):
            losses = [self.micro_step() for _ in range(self.cfg.accumulate)]
            self.update()
            if step % self.cfg.eval_every == 0:
                print(f"update {step:3d} train {sum(l.item() for l in losses):.3f} "
                      f"valid {self.evaluate():.3f}", flush=True)


if __name__ == "__main__":
    Trainer(LMConfig()).fit()
