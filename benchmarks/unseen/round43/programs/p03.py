"""Sampling melodies from a small decoder with a preallocated key/value cache."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB = 96  # 88 keys, rests and durations


class StaticCache:
    def __init__(self, layers, batch, heads, length, head_dim, device):
        shape = (batch, heads, length, head_dim)
        self.k = [torch.zeros(shape, device=device) for _ in range(layers)]
        self.v = [torch.zeros(shape, device=device) for _ in range(layers)]

    def update(self, layer, k, v, pos):
        self.k[layer].index_copy_(2, pos, k)
        self.v[layer].index_copy_(2, pos, v)
        return self.k[layer], self.v[layer]


class Block(nn.Module):
    def __init__(self, index, dim, heads):
        super().__init__()
        self.index, self.heads = index, heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, cache, pos, mask):
        b, t, d = x.shape
        qkv = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads)
        q, k, v = (z.transpose(1, 2) for z in qkv.unbind(2))
        k, v = cache.update(self.index, k, v, pos)
        att = (q @ k.transpose(-1, -2)) / (q.shape[-1] ** 0.5)
        att = att.masked_fill(~mask, float("-inf")).softmax(-1)
        y = (att @ v).transpose(1, 2).reshape(b, t, d)
        x = x + self.out(y)
        return x + self.mlp(self.ln2(x))


class MelodyDecoder(nn.Module):
    def __init__(self, dim=32, heads=4, layers=1, max_len=96):
        super().__init__()
        self.max_len, self.heads, self.dim = max_len, heads, dim
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.blocks = nn.ModuleList(Block(i, dim, heads) for i in range(layers))
        self.ln = nn.LayerNorm(dim)

    def new_cache(self, batch, device):
        return StaticCache(
            len(self.blocks), batch, self.heads, self.max_len, self.dim // self.heads, device
        )

    def forward(self, tokens, cache, start):
        pos = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        slots = torch.arange(self.max_len, device=tokens.device)
        mask = slots[None, :] <= pos[:, None]
        x = self.tok(tokens) + self.pos(pos)
        for block in self.blocks:
            x = block(x, cache, pos, mask)
        return self.ln(x[:, -1]) @ self.tok.weight.t()


def sample(logits, temperature, top_k):
    logits = logits / temperature
    kth = torch.topk(logits, top_k, dim=-1).values[:, -1:]
    logits = logits.masked_fill(logits < kth, float("-inf"))
    noise = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)))
    return (logits + noise).argmax(dim=-1, keepdim=True)


@torch.no_grad()
def generate(model, prompt, new_tokens, temperature, top_k):
    device = prompt.device
    batch, length = prompt.shape
    cache = model.new_cache(batch, device)
    out = torch.zeros(batch, length + new_tokens, dtype=torch.long)
    out[:, :length] = prompt.cpu()

    token = sample(model(prompt, cache, 0), temperature, top_k)
    torch_xla.sync()
    for step in range(new_tokens):
        out[:, length + step] = token[:, 0].cpu()
        token = sample(model(token, cache, length + step), temperature, top_k)
        torch_xla.sync()
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--prompt", type=int, default=8)
    ap.add_argument("--new_tokens", type=int, default=30)
    ap.add_argument("--temperature", type=float, default=0.9)
    ap.add_argument("--top_k", type=int, default=12)
    ap.add_argument("--seed", type=int, default=3)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    device = torch_xla.device()
    model = MelodyDecoder().to(device).eval()
    prompt = torch.randint(0, VOCAB, (args.batch, args.prompt)).to(device)
    tunes = generate(model, prompt, args.new_tokens, args.temperature, args.top_k)
    for i, row in enumerate(tunes.tolist()):
        print(f"tune {i}: " + " ".join(f"{n:02d}" for n in row[:24]) + " ...")
    used = torch.bincount(tunes.flatten(), minlength=VOCAB)
    print("distinct symbols:", int((used > 0).sum()))


if __name__ == "__main__":
    main()
