"""Masked language model over antibody heavy chains."""
import argparse
import dataclasses
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

ALPHABET = "-LAGVSERTIDPKQNFYMHWC*#X"
PAD, MASK = 0, 22


@dataclasses.dataclass
class Config:
    vocab: int = len(ALPHABET)
    dim: int = 32
    heads: int = 4
    layers: int = 1
    ffn: int = 64
    max_len: int = 24
    lr: float = 4e-4
    weight_decay: float = 0.01
    betas: tuple = (0.9, 0.98)
    clip: float = 1.0


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads = cfg.heads
        self.ln1 = nn.LayerNorm(cfg.dim)
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim, bias=False)
        self.proj = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.ln2 = nn.LayerNorm(cfg.dim)
        self.up = nn.Linear(cfg.dim, cfg.ffn, bias=False)
        self.down = nn.Linear(cfg.ffn, cfg.dim, bias=False)

    def forward(self, x, bias):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads) + bias
        y = (att.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(y)
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class MLMHead(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.dense = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.norm = nn.LayerNorm(cfg.dim)
        self.decoder = nn.Linear(cfg.dim, cfg.vocab)

    def forward(self, x):
        return self.decoder(self.norm(F.gelu(self.dense(x))))


class ChainLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Embedding(cfg.max_len, cfg.dim)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.lm_head = MLMHead(cfg)
        self.apply(self._init)

    def _init(self, m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)

    def tie_weights(self):
        self.lm_head.decoder.weight = self.tok.weight

    def forward(self, ids, position):
        bias = (ids == PAD)[:, None, None, :].to(self.tok.weight.dtype) * -1e4
        x = self.tok(ids) + self.pos(position)
        for blk in self.blocks:
            x = blk(x, bias)
        return self.lm_head(x)


class ChainBatches:
    def __init__(self, cfg, batch, seed):
        self.cfg, self.batch, self.rng = cfg, batch, np.random.default_rng(seed)

    def next(self):
        ids = self.rng.integers(1, 21, size=(self.batch, self.cfg.max_len))
        length = self.rng.integers(16, self.cfg.max_len + 1, size=self.batch)
        ids[np.arange(self.cfg.max_len)[None] >= length[:, None]] = PAD
        hide = (self.rng.random(ids.shape) < 0.15) & (ids != PAD)
        labels = np.where(hide, ids, -100)
        return torch.from_numpy(np.where(hide, MASK, ids)), torch.from_numpy(labels)


def mlm_loss(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def warmup_rsqrt(step, warmup=10):
    return min((step + 1) / warmup, math.sqrt(warmup / (step + 1)))


def main(args):
    cfg = Config()
    device = torch_xla.device()
    torch.manual_seed(args.seed)
    model = ChainLM(cfg)
    model.to(device)
    model.tie_weights()
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, betas=cfg.betas,
                            weight_decay=cfg.weight_decay)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, warmup_rsqrt)
    data = ChainBatches(cfg, args.batch, args.seed)
    position = torch.arange(cfg.max_len, device=device)
    torch_xla.sync()

    for step in range(args.steps):
        ids, labels = (t.to(device) for t in data.next())
        loss = mlm_loss(model(ids, position), labels)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
        opt.step()
        sched.step()
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--steps", type=int, default=5)
    ap.add_argument("--seed", type=int, default=11)
    main(ap.parse_args())
