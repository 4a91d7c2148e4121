"""Simultaneous translation: a small transformer trained over many read/write policies."""
import math
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    src_vocab: int = 90
    tgt_vocab: int = 80
    d: int = 32
    heads: int = 2
    enc_layers: int = 2
    dec_layers: int = 1
    src_len: int = 14
    tgt_len: int = 12
    batch: int = 8
    steps: int = 24
    lr: float = 0.2
    k_min: int = 1
    k_max: int = 9
    seed: int = 5


class Attention(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.h = heads
        self.q, self.kv, self.o = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)

    def forward(self, x, mem, mask=None):
        b, t, d = x.shape
        q = self.q(x).view(b, t, self.h, -1).transpose(1, 2)
        k, v = self.kv(mem).view(b, mem.shape[1], 2, self.h, -1).permute(2, 0, 3, 1, 4)
        att = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if mask is not None:
            att = att.masked_fill(mask == 0, -1e4)
        return self.o((att.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, d, heads, cross):
        super().__init__()
        self.sa, self.ln1 = Attention(d, heads), nn.LayerNorm(d)
        self.ca = Attention(d, heads) if cross else None
        self.ln2 = nn.LayerNorm(d) if cross else None
        self.ff = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x, self_mask, mem=None, mem_mask=None):
        h = self.ln1(x)
        x = x + self.sa(h, h, self_mask)
        if self.ca is not None:
            x = x + self.ca(self.ln2(x), mem, mem_mask)
        return x + self.ff(x)


class WaitKTransformer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.src_emb, self.tgt_emb = nn.Embedding(cfg.src_vocab, cfg.d), nn.Embedding(cfg.tgt_vocab, cfg.d)
        self.src_pos = nn.Parameter(torch.randn(cfg.src_len, cfg.d) * 0.02)
        self.tgt_pos = nn.Parameter(torch.randn(cfg.tgt_len, cfg.d) * 0.02)
        self.enc = nn.ModuleList([Block(cfg.d, cfg.heads, False) for _ in range(cfg.enc_layers)])
        self.dec = nn.ModuleList([Block(cfg.d, cfg.heads, True) for _ in range(cfg.dec_layers)])
        self.out = nn.Linear(cfg.d, cfg.tgt_vocab)

    def forward(self, src, tgt, k):
        s, t = src.shape[1], tgt.shape[1]
        ones = torch.ones(t, s, device=src.device)
        read = torch.tril(ones, diagonal=k - 1)
        causal_src = torch.tril(torch.ones(s, s, device=src.device))
        causal_tgt = torch.tril(torch.ones(t, t, device=src.device))
        mem = self.src_emb(src) + self.src_pos
        for blk in self.enc:
            mem = blk(mem, causal_src)
        x = self.tgt_emb(tgt) + self.tgt_pos
        for blk in self.dec:
            x = blk(x, causal_tgt, mem, read)
        return self.out(x)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        self.model = WaitKTransformer(cfg).to(self.device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=cfg.lr)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, lambda s: min((s + 1) / 10, (10 / (s + 1)) ** 0.5))
        self.rng = random.Random(cfg.seed)

    def batch(self):
        c = self.cfg
        src = torch.randint(4, c.src_vocab, (c.batch, c.src_len))
        tgt = (src[:, :c.tgt_len] * 3 + 1) % (c.tgt_vocab - 4) + 4
        inp = torch.cat([torch.ones(c.batch, 1, dtype=torch.long), tgt[:, :-1]], 1)
        return src.to(self.device), inp.to(self.device), tgt.to(self.device)

    def fit(self):
        for step in range(self.cfg.steps):
            src, inp, tgt = self.batch()
            k = self.rng.randint(self.cfg.k_min, self.cfg.k_max)
            logits = self.model(src, inp, k)
            loss = F.cross_entropy(logits.flatten(0, 1), tgt.flatten(), label_smoothing=0.1)
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.opt.step()
            self.sched.step()
            torch_xla.sync()
            if step % 8 == 7:
                print(f"step {step + 1}: k={k} loss {loss.item():.3f} lr {self.sched.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    torch.manual_seed(5)
    Trainer(Config()).fit()
