"""Small greedy text generation service: pads prompts to buckets, keeps one static KV cache."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB = 160
EOS = 1
PAD = 0
DIM = 32
HEADS = 4
LAYERS = 2
CACHE_LEN = 80
BUCKETS = (16, 32, 64)
MAX_NEW = 6


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, k_cache, v_cache, positions):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        k_cache.index_copy_(2, positions, k)
        v_cache.index_copy_(2, positions, v)
        slots = torch.arange(CACHE_LEN, device=x.device)
        mask = slots[None, :] <= positions[:, None]
        scores = q @ k_cache.transpose(-1, -2) / (d // self.heads) ** 0.5
        scores = scores.masked_fill(~mask, float("-inf"))
        y = F.softmax(scores, dim=-1) @ v_cache
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.ln2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, k_cache, v_cache, positions):
        x = x + self.attn(self.ln1(x), k_cache, v_cache, positions)
        return x + self.mlp(self.ln2(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Embedding(CACHE_LEN, DIM)
        self.blocks = nn.ModuleList(Block(DIM, HEADS) for _ in range(LAYERS))
        self.ln = nn.LayerNorm(DIM)

    def forward(self, ids, positions, caches):
        x = self.tok(ids) + self.pos(positions)
        for block, (k, v) in zip(self.blocks, caches):
            x = block(x, k, v, positions)
        return self.ln(x) @ self.tok.weight.t()


class Generator:
    def __init__(self, model, device):
        self.model = model.eval()
        self.device = device
        shape = (1, HEADS, CACHE_LEN, DIM // HEADS)
        self.caches = [
            (torch.zeros(shape, device=device), torch.zeros(shape, device=device))
            for _ in range(LAYERS)
        ]
        xm.mark_step()

    @staticmethod
    def bucket_for(length):
        for size in BUCKETS:
            if length <= size:
                return size
        raise ValueError(f"prompt of {length} tokens is too long")

    def prefill(self, prompt):
        size = self.bucket_for(len(prompt))
        ids = torch.full((1, size), PAD, dtype=torch.long)
        ids[0, :len(prompt)] = torch.tensor(prompt)
        positions = torch.arange(size)
        last = torch.tensor([len(prompt) - 1])
        ids, positions, last = ids.to(self.device), positions.to(self.device), last.to(self.device)
        logits = self.model(ids, positions, self.caches)
        token = logits.index_select(1, last).argmax(-1)
        return token, last + 1

    def step(self, token, position):
        logits = self.model(token, position, self.caches)
        return logits.argmax(-1), position + 1

    @torch.no_grad()
    def generate(self, prompt, max_new=MAX_NEW):
        token, position = self.prefill(prompt)
        xm.mark_step()
        produced = [int(token.cpu())]
        while len(produced) < max_new and produced[-1] != EOS:
            token, position = self.step(token, position)
            xm.mark_step()
            produced.append(int(token.cpu()))
        return produced


def incoming_requests(rng, count):
    for _ in range(count):
        length = rng.choice((rng.randint(4, 14), rng.randint(18, 30), rng.randint(36, 60)))
        yield [rng.randrange(2, VOCAB) for _ in range(length)]


def main():
    torch.manual_seed(5)
    rng = random.Random(5)
    device = torch_xla.device()
    generator = Generator(Decoder().to(device), device)

    total = 0
    for i, prompt in enumerate(incoming_requests(rng, 11)):
        tokens = generator.generate(prompt)
        total += len(tokens)
        print(f"request {i:2d} prompt {len(prompt):2d} -> {tokens}")
    print(f"generated {total} tokens")


if __name__ == "__main__":
    main()
