"""Sequence tagger with relative position bias."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class TaggerConfig:
    vocab_size: int = 40
    num_tags: int = 6
    pad_id: int = 0
    hidden: int = 24
    num_heads: int = 3
    max_len: int = 12
    num_layers: int = 1


class GatedMLP(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.gate = nn.Linear(hidden, 2 * hidden)
        self.up = nn.Linear(hidden, 2 * hidden)
        self.down = nn.Linear(2 * hidden, hidden)

    def forward(self, x):
        return self.down(self.up(x) * F.silu(self.gate(x)))


class BiasedAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.position_bias = nn.Parameter(torch.randn(cfg.num_heads, cfg.max_len, cfg.max_len) * 0.02)
        self.value = nn.Linear(cfg.hidden, cfg.hidden)
        self.key = nn.Linear(cfg.hidden, cfg.hidden)
        self.query = nn.Linear(cfg.hidden, cfg.hidden)
        self.proj = nn.Linear(cfg.hidden, cfg.hidden)
        self.num_heads = cfg.num_heads

    def forward(self, hidden, pad):
        batch, length, width = hidden.shape
        shape = (batch, length, self.num_heads, width // self.num_heads)
        value = self.value(hidden).reshape(shape)
        key = self.key(hidden).reshape(shape)
        query = self.query(hidden).reshape(shape)
        logits = torch.einsum("bihd,bjhd->bhij", query, key) / (shape[-1]**0.5)
        logits = self.position_bias + logits
        logits = torch.where(pad.view(batch, 1, 1, length), torch.full_like(logits, -1e9), logits)
        mixed = torch.einsum("bhij,bjhd->bihd", logits.softmax(-1), value)
        return self.proj(mixed.reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.mlp = GatedMLP(cfg.hidden)
        self.mlp_norm = nn.LayerNorm(cfg.hidden)
        self.attention = BiasedAttention(cfg)
        self.attention_norm = nn.LayerNorm(cfg.hidden)

    def forward(self, hidden, pad):
        hidden = self.attention_norm(self.attention(hidden, pad) + hidden)
        return self.mlp_norm(self.mlp(hidden) + hidden)


class Tagger(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.classifier = nn.Linear(cfg.hidden, cfg.num_tags)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.num_layers))
        self.word_embeddings = nn.Embedding(cfg.vocab_size, cfg.hidden)

    def forward(self, tokens, tags):
        pad = tokens == self.cfg.pad_id
        hidden = self.word_embeddings(tokens)
        for block in self.blocks:
            hidden = block(hidden, pad)
        logp = F.log_softmax(self.classifier(hidden), dim=-1)
        real = torch.logical_not(pad).to(logp.dtype)
        picked = logp.gather(-1, tags.unsqueeze(-1)).squeeze(-1)
        return -(picked * real).sum() / real.sum()


def batches(cfg, n, size=6, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        tokens = rng.integers(1, cfg.vocab_size, (size, cfg.max_len))
        for row, stop in zip(tokens, rng.integers(5, cfg.max_len + 1, size)):
            row[stop:] = cfg.pad_id
        yield torch.from_numpy(tokens), torch.from_numpy(tokens % cfg.num_tags)


def train(cfg, steps=4):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Tagger(cfg).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    for tokens, tags in batches(cfg, steps):
        optimizer.zero_grad()
        loss = model(tokens.to(device), tags.to(device))
        loss.backward()
        xm.optimizer_step(optimizer, barrier=True)
        print(f"{loss.item():.5f}")


if __name__ == "__main__":
    train(TaggerConfig())
