"""Decoder-only model over MIDI event tokens: RMSNorm, rotary positions, grouped-query attention, SwiGLU."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, DIM, HEADS, KV_HEADS, LAYERS, SEQ, BATCH = 40, 24, 4, 2, 1, 12, 3
HEAD_DIM = DIM // HEADS
FFN = 40
PAD = 0


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotary_tables(seq, dim, device):
    inv = 1.0 / (10000 ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim))
    ang = torch.outer(torch.arange(seq, dtype=torch.float32), inv)
    return ang.cos().to(device), ang.sin().to(device)


def rotate(x, cos, sin):
    # x: [B, H, T, D]
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIM, HEADS * HEAD_DIM, bias=False)
        self.k = nn.Linear(DIM, KV_HEADS * HEAD_DIM, bias=False)
        self.v = nn.Linear(DIM, KV_HEADS * HEAD_DIM, bias=False)
        self.o = nn.Linear(HEADS * HEAD_DIM, DIM, bias=False)

    def forward(self, x, cos, sin, causal):
        B, T, _ = x.shape
        q = self.q(x).view(B, T, HEADS, HEAD_DIM).transpose(1, 2)
        k = self.k(x).view(B, T, KV_HEADS, HEAD_DIM).transpose(1, 2)
        v = self.v(x).view(B, T, KV_HEADS, HEAD_DIM).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k = k.repeat_interleave(HEADS // KV_HEADS, dim=1)
        v = v.repeat_interleave(HEADS // KV_HEADS, dim=1)
        att = q @ k.transpose(-2, -1) / math.sqrt(HEAD_DIM)
        att = att.masked_fill(~causal, float("-inf")).softmax(-1)
        y = (att @ v).transpose(1, 2).reshape(B, T, DIM)
        return self.o(y)


class SwiGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(DIM, FFN, bias=False)
        self.up = nn.Linear(DIM, FFN, bias=False)
        self.down = nn.Linear(FFN, DIM, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = RMSNorm(DIM), RMSNorm(DIM)
        self.att, self.ffn = Attention(), SwiGLU()

    def forward(self, x, cos, sin, causal):
        x = x + self.att(self.n1(x), cos, sin, causal)
        return x + self.ffn(self.n2(x))


class MidiLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = RMSNorm(DIM)

    def forward(self, tokens, cos, sin, causal):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin, causal)
        return self.norm(x) @ self.embed.weight.t()


def batches(seed=0):
    rng = np.random.default_rng(seed)
    while True:
        x = rng.integers(1, VOCAB, (BATCH, SEQ + 1))
        x[:, 2::3] = (x[:, 1:-1:3][:, : x[:, 2::3].shape[1]] + 7) % (VOCAB - 1) + 1
        for row, n in zip(x, rng.integers(SEQ // 2, SEQ + 2, BATCH)):
            row[n:] = PAD
        yield torch.from_numpy(x)


def loss_fn(logits, target):
    return F.cross_entropy(logits.reshape(-1, VOCAB), target.reshape(-1), ignore_index=PAD)


def build(device):
    torch.manual_seed(2)
    return MidiLM().to(device)


def train(model, device, steps=6):
    cos, sin = rotary_tables(SEQ, HEAD_DIM, device)
    causal = torch.ones(SEQ, SEQ, dtype=torch.bool).tril().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    data, losses = batches(), []
    for _ in range(steps):
        tokens = next(data).to(device)
        logits = model(tokens[:, :-1], cos, sin, causal)
        loss = loss_fn(logits, tokens[:, 1:])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        torch_xla.sync()
        losses.append(loss.detach())
    return [l.item() for l in losses]


if __name__ == "__main__":
    device = torch_xla.device()
    print(" ".join(f"{l:.6f}" for l in train(build(device), device)))
