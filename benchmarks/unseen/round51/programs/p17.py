"""Batch text generation with a static key/value cache and bucketed prompts."""
import collections
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB = 96
PAD = 0
Request = collections.namedtuple("Request", "uid tokens")


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache, positions, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        cache["k"].index_copy_(2, positions, k)
        cache["v"].index_copy_(2, positions, v)
        att = q @ cache["k"].transpose(-1, -2) / (d // self.heads) ** 0.5
        att = att.masked_fill(~mask[:, None], -1e9).softmax(-1)
        return self.out((att @ cache["v"]).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))

    def forward(self, x, *args):
        x = x + self.att(self.n1(x), *args)
        return x + self.mlp(self.n2(x))


class Decoder(nn.Module):
    def __init__(self, dim=32, heads=4, layers=2, max_len=80):
        super().__init__()
        self.dim, self.heads, self.max_len = dim, heads, max_len
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)

    def new_cache(self, batch, device):
        shape = (batch, self.heads, self.max_len, self.dim // self.heads)
        return [{"k": torch.zeros(shape, device=device), "v": torch.zeros(shape, device=device)}
                for _ in self.blocks]

    def forward(self, ids, positions, cache, valid):
        """positions: slots in the cache; valid: (batch, max_len), slots that hold a real token."""
        x = self.tok(ids) + self.pos(positions)
        slots = torch.arange(self.max_len, device=ids.device)
        mask = (slots[None, None] <= positions[None, :, None]) & valid[:, None]
        for block, layer_cache in zip(self.blocks, cache):
            x = block(x, layer_cache, positions, mask)
        return F.linear(self.norm(x[:, -1]), self.tok.weight)


class Engine:
    def __init__(self, model, device, batch=4, buckets=(16, 32, 64), max_new=6, temperature=0.8):
        self.model, self.device, self.batch = model, device, batch
        self.buckets, self.max_new, self.temperature = buckets, max_new, temperature

    def _pick(self, logits):
        noise = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)))
        return (logits / self.temperature + noise).argmax(-1, keepdim=True)

    def _collate(self, requests):
        longest = max(len(r.tokens) for r in requests)
        width = next(b for b in self.buckets if b >= longest)
        ids = torch.full((self.batch, width), PAD)
        valid = torch.zeros(self.batch, self.model.max_len, dtype=torch.bool)
        for row, r in enumerate(requests):
            ids[row, width - len(r.tokens):] = torch.tensor(r.tokens)
            valid[row, width - len(r.tokens):] = True
        return ids, valid, torch.arange(width)

    @torch.no_grad()
    def generate(self, requests):
        ids, valid, positions = (t.to(self.device) for t in self._collate(requests))
        cache = self.model.new_cache(self.batch, self.device)
        token = self._pick(self.model(ids, positions, cache, valid))
        cursor = positions[-1:] + 1
        torch_xla.sync()

        produced = [token]
        for _ in range(self.max_new - 1):
            token = self._pick(self.model(token, cursor, cache, valid))
            cursor = cursor + 1
            torch_xla.sync()
            produced.append(token)
        host = [t.cpu() for t in produced]
        return torch.cat(host, dim=1)[: len(requests)].tolist()


def traffic(n, rng, shortest=3, longest=64):
    for uid in range(n):
        length = min(longest, max(shortest, int(rng.lognormvariate(2.9, 0.7))))
        yield Request(uid, [rng.randrange(1, VOCAB) for _ in range(length)])


def main():
    rng = random.Random(29)
    torch.manual_seed(29)
    xm.set_rng_state(29)
    device = torch_xla.device()
    model = Decoder().to(device).eval()
    engine = Engine(model, device)

    pending, answered, tokens_out = [], 0, 0
    for request in traffic(42, rng):
        pending.append(request)
        if len(pending) < engine.batch:
            continue
        for r, out in zip(pending, engine.generate(pending)):
            answered += 1
            tokens_out += len(out)
            if r.uid % 10 == 0:
                print(f"request {r.uid:3d} ({len(r.tokens):2d} tokens) -> {out}")
        pending.clear()
    if pending:
        answered += len(engine.generate(pending))
    print(f"answered {answered} requests, {tokens_out} tokens from full batches")


if __name__ == "__main__":
    main()
