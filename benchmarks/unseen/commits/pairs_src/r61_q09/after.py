"""Decoder-only transformer on REMI events (piano), PyTorch/XLA."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB = {"pad": 0, "bar": 1, "position": 2, "pitch": 18, "velocity": 66, "duration": 74}
VOCAB_SIZE = 90
DIM, HEADS, LENGTH, LAYERS = 16, 2, 24, 1


class RotaryAttention(nn.Module):
    def __init__(self, dim, heads, length):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * dim, bias=False)
        self.out = nn.Linear(dim, dim)
        half = dim // heads // 2
        freq = 10000.0 ** (-torch.arange(half) / half)
        angle = torch.arange(length)[:, None] * freq
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        self.register_buffer("future", torch.ones(length, length, dtype=torch.bool).triu(1))

    def rotate(self, x):
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * self.cos - b * self.sin, a * self.sin + b * self.cos], dim=-1)

    def forward(self, x, pad):
        b, n, d = x.shape
        q = self.q(x).view(b, n, self.heads, -1).transpose(1, 2)
        k, v = self.kv(x).view(b, n, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = self.rotate(q), self.rotate(k)
        att = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        att = att.masked_fill(self.future | pad[:, None, None, :], -1e4)
        y = att.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(DIM)
        self.attn = RotaryAttention(DIM, HEADS, LENGTH)
        self.norm2 = nn.LayerNorm(DIM)
        self.gate = nn.Linear(DIM, 4 * DIM)
        self.down = nn.Linear(2 * DIM, DIM)

    def forward(self, x, pad):
        x = x + self.attn(self.norm1(x), pad)
        a, b = self.gate(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(a) * b)


class MusicTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB_SIZE, DIM)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(DIM)
        self.apply(self._init)

    @staticmethod
    def _init(m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)
        if isinstance(m, nn.Linear) and m.bias is not None:
            nn.init.zeros_(m.bias)

    def forward(self, tokens):
        pad = tokens == VOCAB["pad"]
        x = self.embed(tokens) * math.sqrt(DIM)
        for layer in self.layers:
            x = layer(x, pad)
        return F.linear(self.norm(x), self.embed.weight)


def configure_optimizer(model, lr, weight_decay):
    return torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.98), eps=1e-9,
                             weight_decay=weight_decay)


def loss_fn(logits, target):
    ce = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none",
                         label_smoothing=0.1)
    valid = (target.flatten() != VOCAB["pad"]).float()
    return (ce * valid).sum() / valid.sum()


def piano_batches(steps, batch=3, seed=8):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        rows = np.zeros((batch, LENGTH + 1), dtype=np.int64)
        for row in rows:
            events = [VOCAB["bar"]]
            for _ in range(rng.integers(4, 8)):
                events += [VOCAB["position"] + rng.integers(16), VOCAB["pitch"] + rng.integers(48),
                           VOCAB["velocity"] + rng.integers(8), VOCAB["duration"] + rng.integers(16)]
            events = events[:LENGTH + 1]
            row[:len(events)] = events
        yield torch.from_numpy(rows)


def main(steps=5, warmup=4000):
    torch.manual_seed(8)
    device = torch_xla.device()
    model = MusicTransformer().to(device)
    optimizer = configure_optimizer(model, lr=1e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / warmup, (warmup / (s + 1)) ** 0.5))
    torch_xla.sync()
    for step, events in enumerate(piano_batches(steps)):
        events = events.to(device)
        optimizer.zero_grad()
        loss = loss_fn(model(events[:, :-1]), events[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        torch_xla.sync()
        print(step, round(loss.item(), 4), flush=True)


if __name__ == "__main__":
    main()
