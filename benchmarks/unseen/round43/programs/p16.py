"""Batch generation service for a small decoder-only model of SMILES strings.

Requests are grouped by padded prompt length; each group is prefilled once and
then decoded token by token against a preallocated cache.
"""
import math
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, DIM, HEADS, DEPTH = 48, 48, 4, 2
MAX_LEN = 64
BUCKETS = (8, 16, 32)
GROUP = 4
NEW_TOKENS = 6


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)

    def forward(self, x, cache, pos, bias):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        ck = cache[0].index_copy(2, pos, k)
        cv = cache[1].index_copy(2, pos, v)
        att = q @ ck.transpose(-1, -2) / math.sqrt(q.size(-1)) + bias
        y = torch.softmax(att, dim=-1) @ cv
        return self.out(y.transpose(1, 2).reshape(b, t, DIM)), (ck, cv)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.att = Attention()
        self.ff = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))

    def forward(self, x, cache, pos, bias):
        y, cache = self.att(self.n1(x), cache, pos, bias)
        x = x + y
        return x + self.ff(self.n2(x)), cache


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Embedding(MAX_LEN, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm = nn.LayerNorm(DIM)
        nn.init.normal_(self.tok.weight, std=0.05)

    def empty_cache(self, batch, device):
        shape = (batch, HEADS, MAX_LEN, DIM // HEADS)
        return [(torch.zeros(shape, device=device), torch.zeros(shape, device=device))
                for _ in self.blocks]

    def forward(self, ids, cache, pos, left_pad):
        slots = torch.arange(MAX_LEN, device=ids.device)
        seen = (slots.view(1, 1, -1) <= pos.view(1, -1, 1)) & \
               (slots.view(1, 1, -1) >= left_pad.view(-1, 1, 1))
        bias = torch.where(seen, 0.0, -1e9).unsqueeze(1)
        x = self.tok(ids) + self.pos(pos)
        out = []
        for block, c in zip(self.blocks, cache):
            x, c = block(x, c, pos, bias)
            out.append(c)
        return F.linear(self.norm(x[:, -1]), self.tok.weight), out


def pick(logits, temperature, top_k=8):
    kth = torch.topk(logits, top_k, dim=-1).values[:, -1:]
    logits = logits.masked_fill(logits < kth, -1e9) / temperature
    gumbel = -torch.log(-torch.log(torch.rand_like(logits).clamp_min(1e-9)))
    return torch.argmax(logits + gumbel, dim=-1, keepdim=True)


def incoming(n, seed):
    rng = np.random.default_rng(seed)
    for i in range(n):
        length = int(np.clip(rng.lognormal(2.3, 0.5), 3, BUCKETS[-1]))
        yield i, rng.integers(1, VOCAB, length)


class Scheduler:
    def __init__(self):
        self.queues = {b: deque() for b in BUCKETS}

    def add(self, rid, prompt):
        size = next(b for b in BUCKETS if len(prompt) <= b)
        self.queues[size].append((rid, prompt))
        if len(self.queues[size]) >= GROUP:
            return size, [self.queues[size].popleft() for _ in range(GROUP)]
        return None

    def drain(self):
        for size, q in self.queues.items():
            if q:
                yield size, list(q)


def pack(size, group):
    ids = np.zeros((GROUP, size), dtype=np.int64)
    pad = np.full((GROUP,), size - 1, dtype=np.int64)
    for row, (_, prompt) in enumerate(group):
        ids[row, size - len(prompt):] = prompt
        pad[row] = size - len(prompt)
    return torch.from_numpy(ids), torch.from_numpy(pad)


@torch.no_grad()
def serve(model, size, group, device, temperature):
    ids, pad = pack(size, group)
    ids, pad = ids.to(device), pad.to(device)
    cache = model.empty_cache(GROUP, device)
    logits, cache = model(ids, cache, torch.from_numpy(np.arange(size)).to(device), pad)
    token = pick(logits, temperature)
    torch_xla.sync()

    made = [token]
    for i in range(NEW_TOKENS - 1):
        pos = torch.tensor([size + i]).to(device)
        logits, cache = model(token, cache, pos, pad)
        token = pick(logits, temperature)
        made.append(token)
        torch_xla.sync()
    return np.concatenate([m.cpu().numpy() for m in made], axis=1)[:len(group)]


def main():
    torch.manual_seed(41)
    device = torch_xla.device()
    model = Decoder().to(device).eval()
    torch_xla.sync()

    sched, served = Scheduler(), 0
    for rid, prompt in incoming(44, seed=41):
        ready = sched.add(rid, prompt)
        if ready is not None:
            out = serve(model, *ready, device, temperature=0.7 + 0.01 * (rid % 20))
            served += len(out)
            print(f"bucket {ready[0]:2d} served {served:2d} first {out[0].tolist()}")
    for size, group in sched.drain():
        served += len(serve(model, size, group, device, temperature=0.8))
    print(f"served {served} requests")


if __name__ == "__main__":
    main()
