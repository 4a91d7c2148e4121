# Small decoder-only character model.
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    vocab: int = 40
    ctx: int = 12
    d_model: int = 32
    heads: int = 4
    layers: int = 1
    batch: int = 4
    lr: float = 1e-3
    wd: float = 0.05
    clip: float = 0.5


class CausalAttention(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.h = c.heads
        self.qkv = nn.Linear(c.d_model, 3 * c.d_model, bias=False)
        self.out = nn.Linear(c.d_model, c.d_model, bias=False)
        self.register_buffer("mask", torch.ones(c.ctx, c.ctx).tril().bool())

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (t.view(B, T, self.h, D // self.h).transpose(1, 2)
                   for t in self.qkv(x).chunk(3, dim=-1))
        att = q @ k.transpose(-2, -1) * (D // self.h) ** -0.5
        att = att.masked_fill(~self.mask[:T, :T], float("-inf")).softmax(-1)
        return self.out((att @ v).transpose(1, 2).reshape(B, T, D))


class MLP(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.up = nn.Linear(c.d_model, 4 * c.d_model)
        self.down = nn.Linear(4 * c.d_model, c.d_model)

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(c.d_model), nn.LayerNorm(c.d_model)
        self.att, self.mlp = CausalAttention(c), MLP(c)

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.mlp(self.n2(x))


class CharLM(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.tok = nn.Embedding(c.vocab, c.d_model)
        self.pos = nn.Parameter(0.02 * torch.randn(c.ctx, c.d_model))
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.d_model)
        self.head = nn.Linear(c.d_model, c.vocab, bias=False)

    def forward(self, idx):
        x = self.tok(idx) + self.pos[: idx.size(1)]
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x))


def batches(c: Config, n: int):
    g = torch.Generator().manual_seed(1)
    for _ in range(n):
        start = torch.randint(0, c.vocab, (c.batch, 1), generator=g)
        seq = (start + 3 * torch.arange(c.ctx + 1)) % c.vocab
        yield seq[:, :-1], seq[:, 1:]


def run(c: Config, steps: int = 4):
    torch.manual_seed(0)
    dev = torch_xla.device()
    model = CharLM(c).to(dev).train()
    opt = torch.optim.AdamW(model.parameters(), lr=c.lr, weight_decay=c.wd)
    for i, (x, y) in enumerate(batches(c, steps)):
        x, y = x.to(dev), y.to(dev)
        opt.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), c.clip)
        xm.optimizer_step(opt, barrier=True)
        print(i, loss.item())


if __name__ == "__main__":
    run(Config())
