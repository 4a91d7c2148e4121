"""Toy text-completion server with a static key/value cache.

Prompts are padded to the smallest of a few prefill sizes, the cache has a fixed
length, and decoding advances one token at a time with the position held on the
device.
"""
import random
from dataclasses import dataclass, field
from typing import List

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB = 64
MAX_LEN = 64
PREFILL_SIZES = (8, 16, 32)
SLOTS = 4
NEW_TOKENS = 5


@dataclass
class Request:
    prompt: List[int]
    output: List[int] = field(default_factory=list)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(),
                                 nn.Linear(2 * dim, dim))

    def forward(self, x, cache, positions, visible):
        b, t, d = x.shape
        qkv = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        cache_k = cache[0].index_copy(2, positions, k)
        cache_v = cache[1].index_copy(2, positions, v)
        score = q @ cache_k.transpose(-1, -2) / q.shape[-1] ** 0.5
        score = score.masked_fill(~visible, -1e9)
        out = (score.softmax(-1) @ cache_v).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(out)
        return x + self.mlp(self.n2(x)), (cache_k, cache_v)


class TinyLM(nn.Module):
    def __init__(self, dim=32, heads=4, layers=2):
        super().__init__()
        self.dim, self.heads = dim, heads
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Embedding(MAX_LEN, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, VOCAB, bias=False)

    def empty_cache(self, device):
        shape = (SLOTS, self.heads, MAX_LEN, self.dim // self.heads)
        return [(torch.zeros(shape, device=device), torch.zeros(shape, device=device))
                for _ in self.blocks]

    def forward(self, ids, positions, visible, cache):
        x = self.tok(ids) + self.pos(positions)[None]
        new_cache = []
        for block, layer_cache in zip(self.blocks, cache):
            x, layer_cache = block(x, layer_cache, positions, visible)
            new_cache.append(layer_cache)
        return self.lm_head(self.norm(x)), new_cache


class Server:
    def __init__(self, model, device):
        self.model, self.device = model, device
        self.slots = torch.arange(MAX_LEN)

    def _mask(self, lengths, size, rows):
        left = size - torch.tensor(lengths)
        real = self.slots[None, :] >= left[:, None]
        causal = self.slots[None, :] <= rows[:, None]
        return (real[:, None, None, :] & causal[None, None]).to(self.device)

    @torch.no_grad()
    def serve(self, batch: List[Request]):
        lengths = [len(r.prompt) for r in batch]
        size = next(s for s in PREFILL_SIZES if s >= max(lengths))
        ids = torch.tensor([[0] * (size - len(r.prompt)) + r.prompt for r in batch])
        rows = torch.arange(size)
        cache = self.model.empty_cache(self.device)
        logits, cache = self.model(ids.to(self.device), rows.to(self.device),
                                   self._mask(lengths, size, rows), cache)
        token = logits[:, -1].argmax(-1)
        torch_xla.sync()
        produced = [token]
        for i in range(NEW_TOKENS - 1):
            row = torch.tensor([size + i])
            logits, cache = self.model(token[:, None], row.to(self.device),
                                       self._mask(lengths, size, row), cache)
            token = logits[:, -1].argmax(-1)
            torch_xla.sync()
            produced.append(token)
        columns = [t.cpu().tolist() for t in produced]
        for req, toks in zip(batch, zip(*columns)):
            req.output.extend(toks)
        return size


def main():
    torch.manual_seed(13)
    rng = random.Random(13)
    device = xm.xla_device()
    server = Server(TinyLM().to(device).eval(), device)
    torch_xla.sync()

    for call in range(14):
        longest = rng.choice(PREFILL_SIZES) - rng.randrange(3)
        batch = []
        for _ in range(SLOTS):
            n = rng.randint(3, longest)
            batch.append(Request([rng.randrange(1, VOCAB) for _ in range(n)]))
        size = server.serve(batch)
        print(f"call {call:2d} prefill {size:2d} first reply {batch[0].output}")


if __name__ == "__main__":
    main()
