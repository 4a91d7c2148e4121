"""Batched completion of log lines with a small decoder and a fixed-size cache.

Prompts are padded to the next bucket size; one decode step works
for all requests, whatever their length was.
"""
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB = 96
EOS = 1
BUCKETS = (8, 16, 24)
NEW_TOKENS = 12
MAX_LEN = BUCKETS[-1] + NEW_TOKENS
ROWS = 4
BATCHES = 20
CHECK_EVERY = 4


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.o = nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x, write, mask, cache):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        k_all, v_all = cache
        if t == 1:
            at = write[:, None, :, None]
            k_all, v_all = torch.where(at, k, k_all), torch.where(at, v, v_all)
        else:
            pad = (0, 0, 0, k_all.shape[2] - t)
            k_all, v_all = F.pad(k, pad), F.pad(v, pad)
        score = q @ k_all.transpose(-1, -2) / math.sqrt(q.shape[-1])
        score = score.masked_fill(~mask[:, None], -1e4)
        x = x + self.o((score.softmax(-1) @ v_all).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.silu(self.up(self.n2(x)))), (k_all, v_all)


class Decoder(nn.Module):
    def __init__(self, dim=32, heads=2, depth=2):
        super().__init__()
        self.dim, self.heads = dim, heads
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Embedding(MAX_LEN, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.register_buffer("slots", torch.arange(MAX_LEN))

    def empty_cache(self, rows, device):
        shape = (rows, self.heads, MAX_LEN, self.dim // self.heads)
        return [(torch.zeros(shape, device=device), torch.zeros(shape, device=device)) for _ in self.layers]

    def forward(self, tokens, positions, cache):
        x = self.tok(tokens) + self.pos(positions)
        mask = self.slots[None, None, :] <= positions[:, :, None]
        write = self.slots[None, :] == positions[:, :1]
        out = []
        for layer, kv in zip(self.layers, cache):
            x, kv = layer(x, write, mask, kv)
            out.append(kv)
        return self.norm(x) @ self.tok.weight.t(), out


def pick(logits, temperature=0.8, k=12):
    top, ids = torch.topk(logits / temperature, k)
    gumbel = -torch.log(-torch.log(torch.rand_like(top).clamp_min(1e-9)))
    return ids.gather(-1, (top + gumbel).argmax(-1, keepdim=True))


@torch.no_grad()
def complete(model, prompts, device):
    longest = max(len(p) for p in prompts)
    width = next(b for b in BUCKETS if b >= longest)
    tokens = torch.zeros(len(prompts), width, dtype=torch.long)
    for row, p in enumerate(prompts):
        tokens[row, : len(p)] = torch.tensor(p)
    lengths = torch.tensor([len(p) for p in prompts]).to(device)
    tokens = tokens.to(device)

    positions = model.slots[:width].expand(len(prompts), -1)
    logits, cache = model(tokens, positions, model.empty_cache(len(prompts), device))
    last = (lengths - 1)[:, None, None].expand(-1, 1, VOCAB)
    nxt = pick(logits.gather(1, last)[:, 0])
    where, done = lengths[:, None], nxt == EOS
    torch_xla.sync()

    produced = [nxt]
    for n in range(1, NEW_TOKENS):
        logits, cache = model(nxt, where, cache)
        nxt = torch.where(done, torch.full_like(nxt, EOS), pick(logits[:, 0]))
        done = done | (nxt == EOS)
        where = where + 1
        torch_xla.sync()
        produced.append(nxt)
        if n % CHECK_EVERY == 0 and bool(done.cpu().all()):
            break
    return [p.cpu() for p in produced]


def requests(rng):
    """Traffic: mostly short lines, stack traces now and then."""
    for _ in range(BATCHES):
        top = rng.choices(BUCKETS, weights=(4, 3, 3))[0]
        yield [[rng.randrange(2, VOCAB) for _ in range(rng.randint(3, top))] for _ in range(ROWS)]


def main():
    torch.manual_seed(14)
    rng = random.Random(2)
    device = torch_xla.device()
    model = Decoder().to(device).eval()

    total = 0
    for i, prompts in enumerate(requests(rng)):
        produced = torch.cat(complete(model, prompts, device), dim=1)
        total += int((produced != EOS).sum())
        if (i + 1) % 5 == 0:
            print(f"{i + 1:3d} batches  {total} tokens  sample {produced[0, :6].tolist()}")


if __name__ == "__main__":
    main()
