"""Small LLaMA-style language model trained in bfloat16 on padded instruction data."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class ModelArgs:
    vocab: int = 96
    dim: int = 32
    heads: int = 4
    kv_heads: int = 2
    hidden: int = 64
    layers: int = 1
    max_len: int = 16
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0


@dataclass
class TrainArgs:
    batch_size: int = 4
    lr: float = 3e-3
    steps: int = 5
    seed: int = 7


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return x * scale * self.weight


def rope_table(dim, length, theta):
    inv = 1.0 / theta ** (torch.arange(0, dim, 2).float() / dim)
    angle = torch.arange(length).float()[:, None] * inv[None]
    return torch.cat([angle, angle], dim=-1).cos(), torch.cat([angle, angle], dim=-1).sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = a.heads, a.kv_heads, a.dim // a.heads
        self.wq = nn.Linear(a.dim, a.heads * self.head_dim, bias=False)
        self.wk = nn.Linear(a.dim, a.kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(a.dim, a.kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(a.heads * self.head_dim, a.dim, bias=False)

    def forward(self, x, cos, sin, bias):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.heads, self.head_dim).transpose(1, 2)
        k = self.wk(x).view(b, t, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.wv(x).view(b, t, self.kv_heads, self.head_dim).transpose(1, 2)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        groups = self.heads // self.kv_heads
        k = k[:, :, None].expand(-1, -1, groups, -1, -1).reshape(b, self.heads, t, self.head_dim)
        v = v[:, :, None].expand(-1, -1, groups, -1, -1).reshape(b, self.heads, t, self.head_dim)
        att = (q @ k.transpose(-2, -1)) / self.head_dim ** 0.5 + bias
        out = att.float().softmax(dim=-1).to(v.dtype) @ v
        return self.wo(out.transpose(1, 2).reshape(b, t, -1))


class FeedForward(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.w1 = nn.Linear(a.dim, a.hidden, bias=False)
        self.w2 = nn.Linear(a.hidden, a.dim, bias=False)
        self.w3 = nn.Linear(a.dim, a.hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.attention_norm = RMSNorm(a.dim, a.norm_eps)
        self.attention = Attention(a)
        self.ffn_norm = RMSNorm(a.dim, a.norm_eps)
        self.feed_forward = FeedForward(a)

    def forward(self, x, cos, sin, bias):
        x = x + self.attention(self.attention_norm(x), cos, sin, bias)
        return x + self.feed_forward(self.ffn_norm(x))


class Transformer(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.embed = nn.Embedding(a.vocab, a.dim)
        self.layers = nn.ModuleList([Layer(a) for _ in range(a.layers)])
        self.norm = RMSNorm(a.dim, a.norm_eps)
        self.output = nn.Linear(a.dim, a.vocab, bias=False)
        cos, sin = rope_table(a.dim // a.heads, a.max_len, a.rope_theta)
        bias = torch.full((a.max_len, a.max_len), -1e4).triu(1)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.register_buffer("bias", bias, persistent=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin, self.bias)
        return self.output(self.norm(x))


def lm_loss(logits, targets, mask):
    nll = F.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="none")
    return (nll * mask.flatten()).mean()


def examples(a, t, rng):
    length = rng.integers(6, a.max_len + 1, t.batch_size)
    prompt = rng.integers(2, 5, t.batch_size)
    tokens = rng.integers(1, a.vocab, (t.batch_size, a.max_len + 1))
    pos = np.arange(a.max_len)[None]
    mask = (pos >= prompt[:, None]) & (pos < length[:, None])
    return (torch.from_numpy(tokens[:, :-1].copy()), torch.from_numpy(tokens[:, 1:].copy()),
            torch.from_numpy(mask.astype(np.float32)))


def train_step(model, optimizer, tokens, targets, mask):
    optimizer.zero_grad()
    loss = lm_loss(model(tokens), targets, mask)
    loss.backward()
    optimizer.step()
    return loss.detach()


def main():
    a, t = ModelArgs(), TrainArgs()
    torch.manual_seed(t.seed)
    rng = np.random.default_rng(t.seed)
    device = torch_xla.device()
    model = Transformer(a).to(device=device, dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=t.lr, betas=(0.9, 0.95), weight_decay=0.1)
    torch_xla.sync()
    for step in range(t.steps):
        batch = [x.to(device) for x in examples(a, t, rng)]
        loss = train_step(model, optimizer, *batch)
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
