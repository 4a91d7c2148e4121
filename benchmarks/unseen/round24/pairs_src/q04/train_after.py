"""Image-text matching with two towers."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass(frozen=True)
class Config:
    width: int = 16
    heads: int = 2
    patch: int = 4
    vocab: int = 20
    grid: int = 2
    batch: int = 6
    words: int = 7
    lr: float = 0.1
    weight_decay: float = 0.01


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.value, self.key, self.query = (nn.Linear(width, width) for _ in range(3))
        self.merge = nn.Linear(width, width)

    def _split(self, layer, x):
        return layer(x).unflatten(-1, (self.heads, -1))

    def forward(self, x):
        v, k, q = (self._split(m, x) for m in (self.value, self.key, self.query))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.size(-1))
        mixed = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v)
        return self.merge(mixed.flatten(2))


class TextTower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.project = nn.Linear(cfg.width, cfg.width, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(cfg.width, 2 * cfg.width), nn.GELU(), nn.Linear(2 * cfg.width, cfg.width)
        )
        self.embedding = nn.Embedding(cfg.vocab, cfg.width)

    def forward(self, tokens):
        weight = tokens.ne(0).float()[..., None]
        h = self.embedding(tokens)
        h = self.mlp(h) + h
        return self.project((weight * h).sum(1) / weight.sum(1))


class ImageTower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.position = nn.Parameter(torch.randn(cfg.grid**2, cfg.width) * 0.02)
        self.norm = nn.LayerNorm(cfg.width)
        self.attention = SelfAttention(cfg.width, cfg.heads)
        self.embed = nn.Linear(3 * cfg.patch**2, cfg.width)
        self.project = nn.Linear(cfg.width, cfg.width, bias=False)

    def patches(self, images):
        p = self.cfg.patch
        x = images.unflatten(3, (-1, p)).unflatten(2, (-1, p))
        return x.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)

    def forward(self, images):
        h = self.embed(self.patches(images)) + self.position
        h = self.attention(self.norm(h)) + h
        return self.project(h.mean(1))


class Matcher(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
        self.text = TextTower(cfg)
        self.image = ImageTower(cfg)

    def forward(self, images, tokens):
        t, i = (z / z.norm(dim=1, keepdim=True) for z in (self.text(tokens), self.image(images)))
        return self.scale.exp() * torch.einsum("id,td->it", i, t)


def matching_loss(logits):
    """Symmetric InfoNCE; positives lie on the diagonal."""
    target = torch.arange(len(logits), device=logits.device)
    columns = F.nll_loss(logits.t().log_softmax(1), target)
    rows = F.nll_loss(logits.log_softmax(1), target)
    return 0.5 * (columns + rows)


def make_batch(cfg, gen):
    side = cfg.grid * cfg.patch
    images = torch.rand(cfg.batch, 3, side, side, generator=gen)
    tokens = torch.randint(0, cfg.vocab, (cfg.batch, cfg.words), generator=gen)
    tokens[:, 0] = 1
    return images, tokens


def main(cfg):
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(0)
    device = xm.xla_device()
    matcher = Matcher(cfg).to(device)
    optimizer = torch.optim.SGD(matcher.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    torch_xla.sync()
    for step in range(3):
        images, tokens = make_batch(cfg, gen)
        images, tokens = images.to(device), tokens.to(device)
        optimizer.zero_grad()
        loss = matching_loss(matcher(images, tokens))
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        print(f"step {step} loss {loss.item():.5f}")


if __name__ == "__main__":
    main(Config())
