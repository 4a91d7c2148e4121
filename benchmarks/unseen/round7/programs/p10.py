"""Causal transformer pretraining on a mixture of tokenized shards kept as memory-mapped arrays."""
import os
import random
import tempfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, SEQ, BATCH = 64, 16, 6


def write_shards(folder):
    """Each source was tokenized by its own job; a shard is saved next to its dtype."""
    sources = {'wiki': (np.uint8, 60), 'books': (np.int16, 50), 'code': (np.int32, 64), 'forum': (np.int64, 40)}
    rng = np.random.default_rng(0)
    for name, (dtype, high) in sources.items():
        steps = rng.integers(1, 4, size=4000)
        tokens = (np.cumsum(steps) % high).astype(dtype)
        np.save(os.path.join(folder, name + '.npy'), tokens)
    return {name: os.path.join(folder, name + '.npy') for name in sources}


class Shard:
    def __init__(self, path):
        self.tokens = np.load(path, mmap_mode='r')

    def batch(self, rng):
        starts = [rng.randrange(len(self.tokens) - SEQ - 1) for _ in range(BATCH)]
        return np.stack([self.tokens[s:s + SEQ + 1] for s in starts])


class Mixture:
    def __init__(self, paths, weights, seed):
        self.shards = {k: Shard(p) for k, p in paths.items()}
        self.names, self.weights = list(paths), weights
        self.rng = random.Random(seed)

    def __iter__(self):
        while True:
            name = self.rng.choices(self.names, self.weights)[0]
            yield name, torch.from_numpy(self.shards[name].batch(self.rng))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


class GPT(nn.Module):
    def __init__(self, dim=24, heads=2, depth=2):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        nn.init.normal_(self.tok.weight, std=0.02)
        self.pos = nn.Parameter(0.02 * torch.randn(SEQ, dim))
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        h = self.norm(self.blocks(self.tok(ids) + self.pos))
        return h @ self.tok.weight.t()


def lm_loss(model, ids):
    ids = ids.long()
    logits = model(ids[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def param_groups(model, decay):
    wd = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    return [{'params': wd, 'weight_decay': decay}, {'params': rest, 'weight_decay': 0.0}]


def pretrain(data, steps, accumulate, device):
    model = GPT().to(device)
    opt = torch.optim.AdamW(param_groups(model, 0.1), lr=2e-3, betas=(0.9, 0.95))
    torch_xla.sync()
    stream = iter(data)
    seen = {}
    for step in range(1, steps + 1):
        opt.zero_grad()
        for micro in range(accumulate):
            name, ids = next(stream)
            ids = ids.to(device)
            loss = lm_loss(model, ids) / accumulate
            loss.backward()
            seen[name] = seen.get(name, 0) + ids.numel()
            if micro < accumulate - 1:
                torch_xla.sync()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        torch_xla.sync()
        if step % 6 == 0:
            print(f'step {step} loss {loss.item() * accumulate:.3f} tokens {sum(seen.values())}')
    return seen


def main():
    torch.manual_seed(8)
    with tempfile.TemporaryDirectory() as folder:
        data = Mixture(write_shards(folder), [4, 3, 2, 2], seed=13)
        seen = pretrain(data, steps=24, accumulate=2, device=torch_xla.device())
    print('tokens by source', dict(sorted(seen.items())))


if __name__ == '__main__':
    main()
