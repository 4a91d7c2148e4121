"""Batched text generation server: bucketed prefill, slot-based decoding, fixed KV store."""
import math
import random
from collections import deque
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class ServerConfig:
    vocab: int = 80
    dim: int = 32
    heads: int = 2
    layers: int = 2
    slots: int = 4
    max_len: int = 64
    prompt_buckets: tuple = (8, 16, 32)
    requests: int = 26
    eos: int = 0
    temperature: float = 0.8


@dataclass
class Request:
    ident: int
    prompt: list
    budget: int
    output: list = field(default_factory=list)


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.h, self.hd = cfg.heads, cfg.dim // cfg.heads
        self.qkv, self.o = nn.Linear(cfg.dim, 3 * cfg.dim), nn.Linear(cfg.dim, cfg.dim)

    def project(self, x):
        return self.qkv(x).view(*x.shape[:2], 3, self.h, self.hd).unbind(2)

    def attend(self, q, k, v, mask):
        score = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(self.hd)
        prob = torch.softmax(score.masked_fill(~mask[:, None], -1e9), dim=-1)
        return self.o(torch.einsum("bhqk,bkhd->bqhd", prob, v).flatten(2))


class Model(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Embedding(cfg.max_len, cfg.dim)
        self.norms = nn.ModuleList(nn.LayerNorm(cfg.dim) for _ in range(cfg.layers))
        self.atts = nn.ModuleList(Attention(cfg) for _ in range(cfg.layers))
        self.ffs = nn.ModuleList(nn.Sequential(nn.LayerNorm(cfg.dim), nn.Linear(cfg.dim, 64),
                                               nn.GELU(), nn.Linear(64, cfg.dim))
                                 for _ in range(cfg.layers))

    def forward(self, ids, positions, mask, read, write):
        x = self.emb(ids) + self.pos(positions)
        for i, (norm, att, ff) in enumerate(zip(self.norms, self.atts, self.ffs)):
            q, k, v = att.project(norm(x))
            write(i, k, v)
            x = x + att.attend(q, *read(i, k, v), mask)
            x = x + ff(x)
        return x @ self.emb.weight.t()


class Server:
    def __init__(self, cfg):
        torch.manual_seed(0)
        self.cfg, self.device = cfg, torch_xla.device()
        self.model = Model(cfg).to(self.device).eval()
        shape = (cfg.slots, cfg.max_len, cfg.heads, cfg.dim // cfg.heads)
        self.store = [[torch.zeros(shape).to(self.device) for _ in range(2)]
                      for _ in range(cfg.layers)]
        self.index = torch.arange(cfg.max_len).to(self.device)
        self.slots = [None] * cfg.slots
        self.length = [0] * cfg.slots
        self.steps = 0

    @torch.no_grad()
    def prefill(self, slot, request):
        cfg, n = self.cfg, len(request.prompt)
        bucket = next(b for b in cfg.prompt_buckets if b >= n)
        ids = torch.tensor([request.prompt + [cfg.eos] * (bucket - n)]).to(self.device)
        where = torch.tensor([slot]).to(self.device)
        last = torch.tensor([n - 1]).to(self.device)
        positions = torch.arange(bucket, device=self.device)[None]
        mask = torch.ones(1, bucket, bucket, dtype=torch.bool, device=self.device).tril()

        def write(i, k, v):
            for side, new in zip((0, 1), (k, v)):
                padded = F.pad(new, (0, 0, 0, 0, 0, cfg.max_len - bucket))
                self.store[i][side] = self.store[i][side].index_copy(0, where, padded)

        logits = self.model(ids, positions, mask, lambda i, k, v: (k, v), write)
        token = logits[0].index_select(0, last).argmax(-1)
        torch_xla.sync()
        request.output.append(token.item())
        self.slots[slot], self.length[slot] = request, n

    @torch.no_grad()
    def decode(self):
        ids = torch.tensor([[r.output[-1] if r else 0] for r in self.slots]).to(self.device)
        at = torch.tensor([[n] for n in self.length]).to(self.device)
        mask = (self.index[None] <= at)[:, None]
        here = (self.index[None] == at)[..., None, None]

        def write(i, k, v):
            self.store[i] = [torch.where(here, new, old)
                             for old, new in zip(self.store[i], (k, v))]

        logits = self.model(ids, at, mask, lambda i, k, v: self.store[i], write)
        gumbel = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)))
        token = (logits / self.cfg.temperature + gumbel).argmax(-1)
        torch_xla.sync()
        self.steps += 1
        for slot, value in enumerate(token.flatten().tolist()):
            request = self.slots[slot]
            if request is None:
                continue
            request.output.append(value)
            self.length[slot] += 1
            full = self.length[slot] + 1 >= self.cfg.max_len
            if value == self.cfg.eos or len(request.output) >= request.budget or full:
                self.slots[slot] = None
                self.length[slot] = 0

    def serve(self, queue):
        while queue or any(self.slots):
            for slot, busy in enumerate(self.slots):
                if busy is None and queue:
                    self.prefill(slot, queue.popleft())
            self.decode()


def main(cfg=ServerConfig()):
    rng = random.Random(0)
    requests = [Request(i, [rng.randrange(1, cfg.vocab) for _ in range(rng.randrange(3, 33))],
                        rng.randrange(6, 24)) for i in range(cfg.requests)]
    server = Server(cfg)
    server.serve(deque(requests))
    tokens = sum(len(r.output) for r in requests)
    print(f"{len(requests)} requests, {tokens} tokens, {server.steps} decode steps")


if __name__ == "__main__":
    main()
