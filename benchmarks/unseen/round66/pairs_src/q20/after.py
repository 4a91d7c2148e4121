"""Symbolic-music decoder (REMI tokens) with rotary attention and SwiGLU."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

PAD = 0


@dataclass
class Config:
    vocab: int = 64
    dim: int = 32
    heads: int = 4
    layers: int = 2
    ctx: int = 24
    hidden: int = 64

    @property
    def head_dim(self):
        return self.dim // self.heads


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        inv = (x * x).mean(-1, keepdim=True).add(self.eps).rsqrt()
        return self.weight * (x * inv)


class Rotary(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        inv = 10000 ** (-torch.arange(0, cfg.head_dim, 2).float() / cfg.head_dim)
        ang = torch.outer(torch.arange(cfg.ctx).float(), inv)
        self.register_buffer("cos", ang.cos()[:, None], persistent=False)
        self.register_buffer("sin", ang.sin()[:, None], persistent=False)

    def forward(self, x):
        half = x.shape[-1] // 2
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * self.cos - b * self.sin, a * self.sin + b * self.cos], -1)


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.heads, self.scale = cfg.heads, cfg.head_dim**0.5
        self.q_proj = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.k_proj = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.v_proj = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.o_proj = nn.Linear(cfg.dim, cfg.dim, bias=False)
        self.register_buffer(
            "allowed", torch.ones(cfg.ctx, cfg.ctx, dtype=torch.bool).tril(), persistent=False
        )

    def forward(self, x, rope):
        q, k, v = (p(x).unflatten(-1, (self.heads, -1)) for p in (self.q_proj, self.k_proj, self.v_proj))
        score = torch.einsum("bqhd,bkhd->bhqk", rope(q), rope(k)) / self.scale
        score = torch.where(self.allowed, score, torch.full_like(score, -1e9))
        out = torch.einsum("bhqk,bkhd->bqhd", score.softmax(-1), v)
        return self.o_proj(out.flatten(-2))


class SwiGLU(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.up = nn.Linear(cfg.dim, cfg.hidden, bias=False)
        self.gate = nn.Linear(cfg.dim, cfg.hidden, bias=False)
        self.down = nn.Linear(cfg.hidden, cfg.dim, bias=False)

    def forward(self, x):
        return self.down(self.up(x) * F.silu(self.gate(x)))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attn, self.mlp = Attention(cfg), SwiGLU(cfg)
        self.attn_norm, self.mlp_norm = RMSNorm(cfg.dim), RMSNorm(cfg.dim)

    def forward(self, x, rope):
        x = x + self.attn(self.attn_norm(x), rope)
        return x + self.mlp(self.mlp_norm(x))


class MusicLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.rope = Rotary(cfg)
        self.embed = nn.Embedding(cfg.vocab, cfg.dim)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.norm = RMSNorm(cfg.dim)
        self.lm_head = nn.Linear(cfg.dim, cfg.vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, self.rope)
        return self.lm_head(self.norm(x))


def make_batch(gen, cfg, batch=4):
    ids = torch.randint(1, cfg.vocab, (batch, cfg.ctx + 1), generator=gen)
    lengths = torch.randint(cfg.ctx // 2, cfg.ctx + 2, (batch,), generator=gen)
    ids[torch.arange(cfg.ctx + 1)[None] >= lengths[:, None]] = PAD
    return ids


def lm_loss(model, ids):
    inp, tgt = ids[:, :-1], ids[:, 1:]
    logp = model(inp).log_softmax(-1)
    keep = tgt.ne(PAD).float()
    token_logp = logp.gather(-1, tgt[..., None])[..., 0]
    return -(keep * token_logp).sum() / keep.sum()


def main(steps=4):
    torch.manual_seed(2)
    gen = torch.Generator().manual_seed(2)
    cfg = Config()
    device = torch_xla.device()
    model = MusicLM(cfg).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    xm.mark_step()
    for step in range(steps):
        ids = make_batch(gen, cfg).to(device)
        opt.zero_grad()
        loss = lm_loss(model, ids)
        loss.backward()
        opt.step()
        xm.mark_step()
        print(step, f"{loss.item():.6f}", flush=True)


if __name__ == "__main__":
    main()
