"""Sequence tagger with relative position bias."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, TAGS, PAD = 40, 6, 0


class SelfAttention(nn.Module):
    def __init__(self, dim, heads, max_len):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)
        self.rel = nn.Parameter(torch.randn(heads, max_len, max_len) * 0.02)

    def split(self, x):
        b, t, d = x.shape
        return x.view(b, t, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, x, keep):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        scores = scores + self.rel
        scores = scores.masked_fill(~keep[:, None, None, :], -1e9)
        ctx = torch.matmul(torch.softmax(scores, dim=-1), v)
        return self.o(ctx.transpose(1, 2).flatten(2))


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, max_len):
        super().__init__()
        self.attn = SelfAttention(dim, heads, max_len)
        self.norm1 = nn.LayerNorm(dim)
        self.w1 = nn.Linear(dim, 2 * dim)
        self.w_gate = nn.Linear(dim, 2 * dim)
        self.w2 = nn.Linear(2 * dim, dim)
        self.norm2 = nn.LayerNorm(dim)

    def forward(self, x, keep):
        x = self.norm1(x + self.attn(x, keep))
        h = F.silu(self.w_gate(x)) * self.w1(x)
        return self.norm2(x + self.w2(h))


class Tagger(nn.Module):
    def __init__(self, dim=24, heads=3, max_len=12, depth=1):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.layers = nn.ModuleList([EncoderLayer(dim, heads, max_len) for _ in range(depth)])
        self.out = nn.Linear(dim, TAGS)

    def forward(self, tokens):
        keep = tokens != PAD
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, keep)
        return self.out(x)


def tag_loss(logits, tags, tokens):
    nll = F.cross_entropy(logits.transpose(1, 2), tags, reduction="none")
    weight = (tokens != PAD).float()
    return (nll * weight).sum() / weight.sum()


def batches(n, size=6, length=12, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        tokens = rng.integers(1, VOCAB, (size, length))
        for row, stop in zip(tokens, rng.integers(5, length + 1, size)):
            row[stop:] = PAD
        yield torch.from_numpy(tokens), torch.from_numpy(tokens % TAGS)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Tagger().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    for tokens, tags in batches(4):
        tokens, tags = tokens.to(device), tags.to(device)
        optimizer.zero_grad()
        loss = tag_loss(model(tokens), tags, tokens)
        loss.backward()
        xm.optimizer_step(optimizer, barrier=True)
        print(f"{loss.item():.5f}")


if __name__ == "__main__":
    main()
