"""Character level language model with rotary attention; model / loss / loop split up."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass(frozen=True)
class Config:
    vocab: int = 40
    ctx: int = 10
    d_model: int = 24
    n_head: int = 3
    n_layer: int = 2
    d_ff: int = 48
    batch: int = 4
    lr: float = 0.05
    momentum: float = 0.9
    z_coef: float = 1e-3
    steps: int = 4

    @property
    def head_dim(self):
        return self.d_model // self.n_head


def linear(n_in, n_out):
    return nn.Linear(n_in, n_out, bias=False)


class Norm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, inp):
        denom = (inp.square().mean(dim=-1, keepdim=True) + self.eps).rsqrt()
        return self.weight * (denom * inp)


class Rotary(nn.Module):
    def __init__(self, c):
        super().__init__()
        inv = 1.0 / (100.0 ** (torch.arange(0, c.head_dim, 2).float() / c.head_dim))
        table = torch.outer(torch.arange(c.ctx).float(), inv)
        self.register_buffer("sin", table.sin())
        self.register_buffer("cos", table.cos())

    def forward(self, x):
        sin, cos = self.sin.unsqueeze(1), self.cos.unsqueeze(1)
        lo, hi = x.chunk(2, dim=-1)
        return torch.cat([lo * cos - hi * sin, lo * sin + hi * cos], dim=-1)


class SelfAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.proj_q, self.proj_k = linear(c.d_model, c.d_model), linear(c.d_model, c.d_model)
        self.proj_v, self.proj_out = linear(c.d_model, c.d_model), linear(c.d_model, c.d_model)

    def forward(self, x, rotary, hidden):
        split = (*x.shape[:2], self.c.n_head, self.c.head_dim)
        values = self.proj_v(x).reshape(split)
        keys = rotary(self.proj_k(x).reshape(split))
        queries = rotary(self.proj_q(x).reshape(split))
        weights = torch.einsum("bqhd,bkhd->bhqk", queries, keys) / math.sqrt(self.c.head_dim)
        weights = weights.masked_fill(hidden, float("-inf")).softmax(dim=-1)
        mixed = torch.einsum("bhqk,bkhd->bqhd", weights, values)
        return self.proj_out(mixed.flatten(2))


class FeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate = linear(c.d_model, c.d_ff)
        self.up = linear(c.d_model, c.d_ff)
        self.down = linear(c.d_ff, c.d_model)

    def forward(self, x):
        lifted, gate = self.up(x), self.gate(x)
        return self.down(lifted * F.silu(gate))


class DecoderBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.pre_attn, self.pre_ff = Norm(c.d_model), Norm(c.d_model)
        self.attn = SelfAttention(c)
        self.ff = FeedForward(c)

    def forward(self, x, rotary, hidden):
        x = self.attn(self.pre_attn(x), rotary, hidden) + x
        return self.ff(self.pre_ff(x)) + x


class LanguageModel(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed = nn.Embedding(c.vocab, c.d_model)
        self.blocks = nn.ModuleList([DecoderBlock(c) for _ in range(c.n_layer)])
        self.out_norm = Norm(c.d_model)
        self.rotary = Rotary(c)
        self.register_buffer("hidden", torch.ones(c.ctx, c.ctx).triu(1).bool())

    def forward(self, ids):
        h = self.embed(ids)
        for block in self.blocks:
            h = block(h, self.rotary, self.hidden)
        return self.out_norm(h) @ self.embed.weight.t()


def objective(logits, targets, z_coef):
    flat = logits.reshape(-1, logits.shape[-1])
    z = flat.logsumexp(dim=-1).square().mean()
    ce = F.cross_entropy(flat, targets.reshape(-1))
    return z * z_coef + ce, ce


def train(c=Config()):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = LanguageModel(c).to(device)
    opt = torch.optim.SGD(reversed(list(model.parameters())), lr=c.lr, momentum=c.momentum)
    gen = torch.Generator().manual_seed(1)
    for step in range(c.steps):
        text = torch.randint(0, c.vocab, (c.batch, c.ctx + 1), generator=gen).to(device)
        loss, ce = objective(model(text[:, :-1]), text[:, 1:], c.z_coef)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        print(f"step {step} loss {loss.item():.6f} ce {ce.item():.6f}")


if __name__ == "__main__":
    train()
