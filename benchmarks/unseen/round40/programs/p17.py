"""Batched completion service for a small decoder: prompts are padded to one of a
few lengths, the key/value cache has a fixed size and tokens are decoded in waves."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import math
import random
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB = 64
EOS = 0
SLOTS = 4
CACHE = 48
PROMPT_LENGTHS = (8, 16, 32)
MAX_NEW = 10


@dataclass
class Request:
    uid: int
    prompt: list
    limit: int
    output: list = field(default_factory=list)
    done: bool = False


class CachedAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x, positions, cache):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).unbind(dim=2)
        place = F.one_hot(positions, CACHE).to(x.dtype)
        keep = (1.0 - place.sum(dim=1).clamp(max=1.0))[:, :, None, None]
        keys = cache[0] * keep + torch.einsum("btc,bthd->bchd", place, k)
        values = cache[1] * keep + torch.einsum("btc,bthd->bchd", place, v)
        score = torch.einsum("bthd,bchd->bhtc", q, keys) / math.sqrt(d // self.heads)
        visible = torch.arange(CACHE, device=x.device)[None, None] <= positions[:, :, None]
        score = score.masked_fill(~visible[:, None], -1e4)
        out = torch.einsum("bhtc,bchd->bthd", score.softmax(dim=-1), values)
        return self.proj(out.reshape(b, t, d)), (keys, values)


class Decoder(nn.Module):
    def __init__(self, dim=32, heads=4, layers=2):
        super().__init__()
        self.heads, self.dim = heads, dim
        self.token = nn.Embedding(VOCAB, dim)
        self.position = nn.Embedding(CACHE, dim)
        self.attns = nn.ModuleList(CachedAttention(dim, heads) for _ in range(layers))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim))
            for _ in range(layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))

    def empty_cache(self, batch, device):
        shape = (batch, CACHE, self.heads, self.dim // self.heads)
        return [
            (torch.zeros(shape, device=device), torch.zeros(shape, device=device))
            for _ in self.attns
        ]

    def forward(self, tokens, positions, cache):
        x = self.token(tokens) + self.position(positions)
        new_cache = []
        for norm, attn, mlp, entry in zip(self.norms, self.attns, self.mlps, cache):
            y, entry = attn(norm(x), positions, entry)
            new_cache.append(entry)
            x = x + y
            x = x + mlp(x)
        return x @ self.token.weight.t(), new_cache


def prefill(model, requests, device):
    width = next(n for n in PROMPT_LENGTHS if max(len(r.prompt) for r in requests) <= n)
    tokens = torch.zeros(SLOTS, width, dtype=torch.long)
    lengths = torch.ones(SLOTS, dtype=torch.long)
    for row, request in enumerate(requests):
        tokens[row, :len(request.prompt)] = torch.tensor(request.prompt)
        lengths[row] = len(request.prompt)
    tokens, lengths = tokens.to(device), lengths.to(device)
    positions = torch.arange(width, device=device).expand(SLOTS, -1)
    logits, cache = model(tokens, positions, model.empty_cache(SLOTS, device))
    last = logits.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, VOCAB))
    return last.argmax(dim=-1), lengths[:, None], cache


def record(requests, tokens):
    for request, token in zip(requests, tokens):
        if request.done:
            continue
        request.output.append(token)
        request.done = token == EOS or len(request.output) >= request.limit


@torch.no_grad()
def serve_wave(model, requests, device):
    token, position, cache = prefill(model, requests, device)
    torch_xla.sync()
    record(requests, token.flatten().tolist())
    steps = 1
    while not all(r.done for r in requests):
        logits, cache = model(token, position, cache)
        token = logits.argmax(dim=-1)
        position = position + 1
        torch_xla.sync()
        record(requests, token.flatten().tolist())
        steps += 1
    return steps


def main():
    torch.manual_seed(17)
    rng = random.Random(17)
    device = torch_xla.device()
    model = Decoder().to(device).eval()

    lengths = [5, 12, 30, 7, 3, 14, 22, 8, 10, 16, 26, 28, 4, 19, 11, 31, 8, 6, 25, 13, 2, 9, 20, 15]
    queue = []
    for uid, n in enumerate(lengths):
        prompt = [rng.randint(1, VOCAB - 1) for _ in range(n)]
        queue.append(Request(uid, prompt, rng.randint(4, MAX_NEW)))
    queue.sort(key=lambda r: (r.uid // 12, len(r.prompt)))

    total, served = 0, 0
    while queue:
        wave, queue = queue[:SLOTS], queue[SLOTS:]
        total += serve_wave(model, wave, device)
        served += len(wave)
        print(f"served {served} steps {total} first {wave[0].output[:4]}")


if __name__ == "__main__":
    main()
