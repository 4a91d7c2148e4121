"""Sequence-to-sequence toy translation (reverse + shift) with length buckets."""
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    vocab: int = 40
    dim: int = 32
    heads: int = 2
    batch: int = 6
    buckets: tuple = (8, 14, 20, 28)
    epochs: int = 4
    steps_per_epoch: int = 9
    lr: float = 2e-3
    pad: int = 0


class Seq2Seq(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.src = nn.Embedding(cfg.vocab, cfg.dim)
        self.tgt = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Embedding(max(cfg.buckets) + 1, cfg.dim)
        self.encoder = nn.ModuleList(
            [nn.TransformerEncoderLayer(cfg.dim, cfg.heads, 64, dropout=0.0, batch_first=True)])
        self.decoder = nn.ModuleList(
            [nn.TransformerDecoderLayer(cfg.dim, cfg.heads, 64, dropout=0.0, batch_first=True)])
        self.out = nn.Linear(cfg.dim, cfg.vocab)

    def forward(self, src, tgt_in, pad):
        pos = torch.arange(src.shape[1], device=src.device)
        mask = src.eq(pad)
        mem = self.src(src) + self.pos(pos)
        for layer in self.encoder:
            mem = layer(mem, src_key_padding_mask=mask)
        n = tgt_in.shape[1]
        causal = torch.triu(torch.full((n, n), -1e9, device=src.device), diagonal=1)
        x = self.tgt(tgt_in) + self.pos(pos)
        for layer in self.decoder:
            x = layer(x, mem, tgt_mask=causal, memory_key_padding_mask=mask)
        return self.out(x)


def sentence(rng, cfg, longest):
    n = rng.randint(3, longest - 1)
    src = [rng.randint(3, cfg.vocab - 1) for _ in range(n)]
    tgt = [3 + (t - 2) % (cfg.vocab - 3) for t in reversed(src)]
    return src, tgt


def bucket_for(n, cfg):
    return next(b for b in cfg.buckets if n <= b)


def batches(rng, cfg):
    """Yields fixed-size batches, each padded to its bucket; short rests stay in the pool."""
    pools = {b: [] for b in cfg.buckets}
    made = 0
    while made < cfg.steps_per_epoch:
        src, tgt = sentence(rng, cfg, max(cfg.buckets))
        b = bucket_for(len(src) + 1, cfg)
        pools[b].append((src, tgt))
        if len(pools[b]) == cfg.batch:
            yield collate(pools[b], b, cfg)
            pools[b] = []
            made += 1


def collate(pairs, length, cfg):
    src = torch.full((cfg.batch, length), cfg.pad, dtype=torch.long)
    tin = torch.full((cfg.batch, length), cfg.pad, dtype=torch.long)
    out = torch.full((cfg.batch, length), cfg.pad, dtype=torch.long)
    for i, (s, t) in enumerate(pairs):
        src[i, :len(s)] = torch.tensor(s)
        tin[i, :len(t) + 1] = torch.tensor([1] + t)
        out[i, :len(t) + 1] = torch.tensor(t + [2])
    return src, tin, out


def train_step(model, optimizer, batch, cfg, device):
    src, tin, out = (t.to(device) for t in batch)
    optimizer.zero_grad()
    logits = model(src, tin, cfg.pad)
    loss = F.cross_entropy(logits.flatten(0, 1), out.flatten(), ignore_index=cfg.pad)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    xm.optimizer_step(optimizer, barrier=True)
    return loss


def main():
    cfg = Config()
    torch.manual_seed(3)
    rng = random.Random(3)
    device = xm.xla_device()
    model = Seq2Seq(cfg).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    for b in cfg.buckets:
        pairs = [sentence(rng, cfg, b) for _ in range(cfg.batch)]
        train_step(model, optimizer, collate(pairs, b, cfg), cfg, device)
    for epoch in range(cfg.epochs):
        losses = []
        for batch in batches(rng, cfg):
            losses.append(train_step(model, optimizer, batch, cfg, device))
        print(f"epoch {epoch} loss {sum(l.item() for l in losses) / len(losses):.4f}")


if __name__ == "__main__":
    main()
