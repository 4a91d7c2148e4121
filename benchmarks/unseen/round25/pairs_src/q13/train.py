# CTC acoustic model, small pre-norm encoder
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    feat: int = 20
    dim: int = 32
    heads: int = 2
    ffn: int = 64
    layers: int = 3
    layerdrop: float = 0.2
    vocab: int = 15
    frames: int = 24
    batch: int = 3
    lr: float = 1e-2
    steps: int = 14


class FeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.LayerNorm(c.dim)
        self.up = nn.Linear(c.dim, c.ffn)
        self.down = nn.Linear(c.ffn, c.dim)

    def forward(self, x):
        return self.down(F.silu(self.up(self.norm(x))))


class SelfAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.h = c.heads
        self.norm = nn.LayerNorm(c.dim)
        self.qkv = nn.Linear(c.dim, 3 * c.dim)
        self.out = nn.Linear(c.dim, c.dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        a = torch.softmax(q @ k.transpose(-1, -2) * (d // self.h) ** -0.5, -1)
        return self.out((a @ v).transpose(1, 2).reshape(b, t, d))


class EncoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attn = SelfAttention(c)
        self.ff = FeedForward(c)

    def forward(self, x):
        x = x + self.attn(x)
        return x + self.ff(x)


class Encoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.layerdrop = c.layerdrop
        self.proj = nn.Linear(c.feat, c.dim)
        self.pos = nn.Conv1d(c.dim, c.dim, 5, padding=2, groups=4)
        self.layers = nn.ModuleList(EncoderLayer(c) for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.dim)
        self.lm_head = nn.Linear(c.dim, c.vocab)

    def forward(self, feats):
        x = self.proj(feats)
        x = x + F.gelu(self.pos(x.transpose(1, 2))).transpose(1, 2)
        for layer in self.layers:
            if self.training and random.random() < self.layerdrop:
                continue
            x = layer(x)
        return self.lm_head(self.norm(x))


def fake_batch(c, gen):
    feats = torch.randn(c.batch, c.frames, c.feat, generator=gen)
    target = torch.randint(0, c.vocab, (c.batch, c.frames), generator=gen)
    return feats, target


def frame_loss(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), label_smoothing=0.1)


def run(c):
    random.seed(1)
    torch.manual_seed(1)
    gen = torch.Generator().manual_seed(5)
    dev = xm.xla_device()
    model = Encoder(c).to(dev)
    opt = torch.optim.SGD(model.parameters(), lr=c.lr, momentum=0.95)
    xm.mark_step()
    for step in range(c.steps):
        feats, target = (t.to(dev) for t in fake_batch(c, gen))
        loss = frame_loss(model(feats), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        if step % 4 == 0:
            print(step, round(loss.item(), 4))


if __name__ == "__main__":
    run(Config())
