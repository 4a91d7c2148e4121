"""Serving loop for a small symbolic-music decoder: batched prompts, cached attention, sampling."""
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 2
VOCAB = 96
END = 1
PAD = 0
DIM, HEADS, LAYERS = 32, 2, 2
CONTEXT = 96
BUCKETS = (16, 32, 64)
SLOTS = 4
MAX_NEW = 20
CHECK_EVERY = 5
ROUNDS = 18


class CachedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)

    def forward(self, x, cache, pos, bias):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        cache[0].index_copy_(2, pos, k)
        cache[1].index_copy_(2, pos, v)
        score = q @ cache[0].transpose(2, 3) / (DIM // HEADS) ** 0.5 + bias
        y = score.softmax(-1) @ cache[1]
        return self.out(y.transpose(1, 2).reshape(b, t, DIM))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attn = CachedAttention()
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x, cache, pos, bias):
        x = x + self.attn(self.n1(x), cache, pos, bias)
        return x + self.mlp(self.n2(x))


class MusicLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Embedding(CONTEXT, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM)

    def forward(self, ids, caches, pos, start):
        """pos: positions of ids in the cache; start: first real position per row."""
        grid = torch.arange(CONTEXT, device=ids.device)
        ok = (grid[None, None] <= pos[None, :, None]) & (grid[None, None] >= start[:, None, None])
        bias = torch.where(ok, 0.0, -1e9).unsqueeze(1)
        x = self.tok(ids) + self.pos(pos)
        for layer, cache in zip(self.layers, caches):
            x = layer(x, cache, pos, bias)
        return self.norm(x[:, -1]) @ self.tok.weight.t()


def pick(logits, temperature):
    gumbel = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)))
    return (logits / temperature + gumbel).argmax(-1, keepdim=True)


class Server:
    def __init__(self, model, device):
        self.model, self.device = model, device
        shape = (SLOTS, HEADS, CONTEXT, DIM // HEADS)
        self.caches = [[torch.zeros(shape, device=device) for _ in range(2)]
                       for _ in range(LAYERS)]

    def pack(self, prompts):
        longest = max(len(p) for p in prompts)
        size = next(b for b in BUCKETS if b >= longest)
        ids = torch.full((SLOTS, size), PAD)
        start = torch.zeros(SLOTS, dtype=torch.long)
        for row, p in enumerate(prompts):
            ids[row, size - len(p):] = torch.tensor(p)
            start[row] = size - len(p)
        return ids.to(self.device), start.to(self.device), torch.arange(size).to(self.device)

    @torch.no_grad()
    def generate(self, prompts, temperature):
        ids, start, pos = self.pack(prompts)
        temp = torch.full((SLOTS, 1), temperature).to(self.device)
        nxt = pick(self.model(ids, self.caches, pos, start), temp)
        cur = pos[-1:] + 1
        done = nxt == END
        out = torch.zeros(SLOTS, MAX_NEW, dtype=torch.long, device=self.device)
        slot = torch.zeros(1, dtype=torch.long, device=self.device)
        out.index_copy_(1, slot, nxt)
        torch_xla.sync()
        for n in range(1, MAX_NEW):
            nxt = pick(self.model(nxt, self.caches, cur, start), temp)
            nxt = torch.where(done, torch.full_like(nxt, PAD), nxt)
            done = done | (nxt == END)
            cur, slot = cur + 1, slot + 1
            out.index_copy_(1, slot, nxt)
            torch_xla.sync()
            if n % CHECK_EVERY == 0 and bool(done.all()):
                break
        return out.cpu()


def traffic(rng):
    """Four requests of similar length, with the temperature of the caller."""
    centre = rng.choice((10, 14, 25, 30, 48, 60))
    prompts = [[rng.randrange(2, VOCAB) for _ in range(max(3, centre - rng.randrange(8)))]
               for _ in range(SLOTS)]
    return prompts, rng.choice((0.7, 0.85, 1.0, 1.2))


def main():
    torch.manual_seed(SEED)
    rng = random.Random(SEED)
    device = torch_xla.device()
    server = Server(MusicLM().to(device).eval(), device)
    torch_xla.sync()

    for size in BUCKETS:
        server.generate([[2] * size] * SLOTS, 0.9)
    served, began = 0, time.time()
    for _ in range(ROUNDS):
        prompts, temperature = traffic(rng)
        notes = server.generate(prompts, temperature)
        served += int((notes != PAD).sum())
    print(f"{served} notes in {time.time() - began:.2f}s")


if __name__ == "__main__":
    main()
