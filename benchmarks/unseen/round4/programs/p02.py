"""Batched text generation with a preallocated key/value cache: one prefill, then one token a step."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    vocab: int = 97
    width: int = 32
    heads: int = 4
    layers: int = 2
    max_len: int = 40
    prompt_len: int = 12


class Attention(nn.Module):
    def __init__(self, c, batch):
        super().__init__()
        self.h, self.hd = c.heads, c.width // c.heads
        self.qkv = nn.Linear(c.width, 3 * c.width)
        self.out = nn.Linear(c.width, c.width)
        shape = (batch, c.heads, c.max_len, self.hd)
        self.register_buffer("k_cache", torch.zeros(shape), persistent=False)
        self.register_buffer("v_cache", torch.zeros(shape), persistent=False)

    def forward(self, x, positions, mask):
        b, t, w = x.shape
        q, k, v = (z.view(b, t, self.h, self.hd).transpose(1, 2) for z in self.qkv(x).chunk(3, -1))
        self.k_cache.index_copy_(2, positions, k)
        self.v_cache.index_copy_(2, positions, v)
        score = q @ self.k_cache.transpose(-1, -2) / math.sqrt(self.hd)
        score = score.masked_fill(~mask, -1e9)
        return self.out((score.softmax(-1) @ self.v_cache).transpose(1, 2).reshape(b, t, w))


class Block(nn.Module):
    def __init__(self, c, batch):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(c.width), nn.LayerNorm(c.width)
        self.att = Attention(c, batch)
        self.mlp = nn.Sequential(nn.Linear(c.width, 4 * c.width), nn.GELU(), nn.Linear(4 * c.width, c.width))

    def forward(self, x, positions, mask):
        x = x + self.att(self.n1(x), positions, mask)
        return x + self.mlp(self.n2(x))


class Decoder(nn.Module):
    def __init__(self, c, batch):
        super().__init__()
        self.tok = nn.Embedding(c.vocab, c.width)
        self.pos = nn.Embedding(c.max_len, c.width)
        self.blocks = nn.ModuleList(Block(c, batch) for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.width)
        self.max_len = c.max_len

    def forward(self, ids, positions):
        slots = torch.arange(self.max_len, device=ids.device)
        mask = slots[None, :] <= positions[:, None]
        x = self.tok(ids) + self.pos(positions)
        for blk in self.blocks:
            x = blk(x, positions, mask)
        return self.norm(x[:, -1]) @ self.tok.weight.t()


def pad_prompt(text, n, pad=0):
    ids = [ord(c) % 97 for c in text][-n:]
    return [pad] * (n - len(ids)) + ids


@torch.no_grad()
def generate(model, prompts, cfg, device, temperature):
    ids = torch.tensor([pad_prompt(p, cfg.prompt_len) for p in prompts]).to(device)
    positions = torch.arange(cfg.prompt_len).to(device)
    logits = model(ids, positions)
    tok = logits.argmax(-1, keepdim=True)
    torch_xla.sync()
    out = [tok.cpu()]
    for pos in range(cfg.prompt_len, cfg.max_len):
        position = torch.tensor([pos]).to(device)
        logits = model(tok, position)
        noise = torch.rand(logits.shape).clamp_(1e-6, 1 - 1e-6).log_().neg_().log_().neg_().to(device)
        tok = (logits / temperature + noise).argmax(-1, keepdim=True)
        torch_xla.sync()
        out.append(tok.cpu())
    return torch.cat(out, 1)


def main():
    torch.manual_seed(3)
    cfg = Config()
    device = torch_xla.device()
    requests = [["hello there", "once upon", "the"], ["a", "long prompt is cut to its end", "x y z"], ["b", "c", "d e f"]]
    model = Decoder(cfg, batch=3).to(device).eval()
    torch_xla.sync()
    for n, prompts in enumerate(requests):
        ids = generate(model, prompts, cfg, device, temperature=0.7 + 0.2 * n)
        print(n, tuple(ids.shape), ids[0, :8].tolist())


if __name__ == "__main__":
    main()
