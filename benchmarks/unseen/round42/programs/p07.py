"""Sample images from an autoregressive model over a raster of visual tokens.

Class-conditional, classifier-free guidance, key/value cache of fixed size.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class ModelConfig:
    side: int = 7
    vocab: int = 128
    classes: int = 10
    dim: int = 48
    heads: int = 4
    layers: int = 3

    @property
    def tokens(self):
        return self.side * self.side


class KVCache:
    def __init__(self, cfg, batch, device):
        shape = (batch, cfg.heads, cfg.tokens, cfg.dim // cfg.heads)
        self.keys = [torch.zeros(shape, device=device) for _ in range(cfg.layers)]
        self.values = [torch.zeros(shape, device=device) for _ in range(cfg.layers)]

    def update(self, layer, k, v, positions):
        self.keys[layer].index_copy_(2, positions, k)
        self.values[layer].index_copy_(2, positions, v)
        return self.keys[layer], self.values[layer]


class Attention(nn.Module):
    def __init__(self, cfg, layer):
        super().__init__()
        self.heads, self.layer = cfg.heads, layer
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim, bias=False)
        self.out = nn.Linear(cfg.dim, cfg.dim, bias=False)

    def forward(self, x, cache, positions, bias):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        k, v = cache.update(self.layer, k, v, positions)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)) + bias
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, cfg, index):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(cfg.dim), nn.LayerNorm(cfg.dim)
        self.attn = Attention(cfg, index)
        self.mlp = nn.Sequential(nn.Linear(cfg.dim, 4 * cfg.dim), nn.GELU(),
                                 nn.Linear(4 * cfg.dim, cfg.dim))

    def forward(self, x, cache, positions, bias):
        x = x + self.attn(self.n1(x), cache, positions, bias)
        return x + self.mlp(self.n2(x))


class RasterTransformer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.cls = nn.Embedding(cfg.classes + 1, cfg.dim)
        self.row = nn.Embedding(cfg.side, cfg.dim)
        self.col = nn.Embedding(cfg.side, cfg.dim)
        self.layers = nn.ModuleList([Layer(cfg, i) for i in range(cfg.layers)])
        self.norm = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.vocab)
        slots = torch.arange(cfg.tokens)
        self.register_buffer("slots", slots, persistent=False)

    def forward(self, emb, cache, start):
        cfg = self.cfg
        positions = torch.arange(start, start + emb.size(1), device=emb.device)
        x = emb + self.row(positions // cfg.side) + self.col(positions % cfg.side)
        visible = self.slots.unsqueeze(0) <= positions.unsqueeze(1)
        bias = torch.zeros_like(visible, dtype=x.dtype).masked_fill(~visible, -1e9)
        for layer in self.layers:
            x = layer(x, cache, positions, bias)
        return self.head(self.norm(x[:, -1]))


def pick(logits, temperature, top_k):
    logits = logits / temperature
    floor = logits.topk(top_k, dim=-1).values[:, -1:]
    logits = logits.masked_fill(logits < floor, -1e9)
    noise = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-9, 1 - 1e-7)))
    return (logits + noise).argmax(-1)


@torch.no_grad()
def generate(model, labels, scale=2.5, temperature=0.9, top_k=32):
    cfg = model.cfg
    n = labels.size(0)
    cache = KVCache(cfg, 2 * n, labels.device)
    null = torch.full_like(labels, cfg.classes)
    emb = model.cls(torch.cat([labels, null])).unsqueeze(1)
    image = []
    torch_xla.sync()
    for pos in range(cfg.tokens):
        cond, uncond = model(emb, cache, pos).chunk(2)
        token = pick(uncond + scale * (cond - uncond), temperature, top_k)
        emb = model.tok(torch.cat([token, token])).unsqueeze(1)
        torch_xla.sync()
        image.append(token.cpu())
    return torch.stack(image, dim=1).view(n, cfg.side, cfg.side)


def main():
    torch.manual_seed(29)
    device = torch_xla.device()
    cfg = ModelConfig()
    model = RasterTransformer(cfg).to(device).eval()
    labels = torch.tensor([1, 4, 4, 7]).to(device)
    torch_xla.sync()
    grids = generate(model, labels)
    for label, grid in zip(labels.tolist(), grids):
        hist = F.one_hot(grid.flatten(), cfg.vocab).sum(0)
        print(f"class {label}: first row {grid[0].tolist()}  distinct {(hist > 0).sum().item()}")


if __name__ == "__main__":
    main()
