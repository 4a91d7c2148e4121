"""Continue a piano roll token by token from a prompt."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BAR, END = 1, 2


class Cache:
    def __init__(self, layers, batch, heads, length, dim, device):
        shape = (batch, heads, length, dim)
        self.k = [torch.zeros(shape, device=device) for _ in range(layers)]
        self.v = [torch.zeros(shape, device=device) for _ in range(layers)]

    def write(self, layer, pos, k, v):
        n = k.shape[2]
        self.k[layer][:, :, pos:pos + n] = k
        self.v[layer][:, :, pos:pos + n] = v
        return self.k[layer], self.v[layer]


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.RMSNorm(dim, eps=1e-6), nn.RMSNorm(dim, eps=1e-6)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.gate = nn.Linear(dim, 2 * dim, bias=False)
        self.up = nn.Linear(dim, 2 * dim, bias=False)
        self.down = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, x, index, pos, cache, cos, sin, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = cache.write(index, pos, k, v)
        att = (q @ k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        att = att.masked_fill(mask, -1e9).softmax(-1)
        x = x + self.o((att @ v).transpose(1, 2).reshape(b, t, d))
        h = self.n2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class PianoModel(nn.Module):
    def __init__(self, vocab=90, dim=32, heads=4, layers=3, length=32):
        super().__init__()
        self.heads, self.length = heads, length
        self.tok = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(dim, eps=1e-6)
        self.out = nn.Linear(dim, vocab, bias=False)
        half = dim // heads // 2
        ang = torch.arange(length)[:, None] / 1000.0 ** (torch.arange(half) / half)
        self.register_buffer("cos", ang.cos(), persistent=False)
        self.register_buffer("sin", ang.sin(), persistent=False)
        self.register_buffer("slots", torch.arange(length), persistent=False)

    def new_cache(self, batch):
        d = self.tok.weight.shape[1] // self.heads
        return Cache(len(self.layers), batch, self.heads, self.length, d, self.tok.weight.device)

    def forward(self, ids, pos, cache):
        n = ids.shape[1]
        mask = self.slots[None, :] > self.slots[pos:pos + n, None]
        cos, sin = self.cos[pos:pos + n], self.sin[pos:pos + n]
        x = self.tok(ids)
        for i, layer in enumerate(self.layers):
            x = layer(x, i, pos, cache, cos, sin, mask)
        return self.out(self.norm(x[:, -1]))


def sample(logits, temperature, top_k):
    logits = logits / temperature
    floor = logits.topk(top_k, -1).values[:, -1:]
    logits = logits.masked_fill(logits < floor, -1e9)
    u = torch.rand_like(logits).clamp(1e-6, 1 - 1e-6)
    return (logits - torch.log(-torch.log(u))).argmax(-1)


@torch.no_grad()
def generate(model, prompt, new_tokens, temperature=0.9, top_k=12):
    b, n = prompt.shape
    cache = model.new_cache(b)
    done = torch.zeros(b, dtype=torch.bool, device=prompt.device)
    bars = torch.zeros(b, dtype=torch.int64, device=prompt.device)
    ids, pos, out = prompt, 0, []
    for _ in range(new_tokens):
        nxt = sample(model(ids, pos, cache), temperature, top_k)
        nxt = torch.where(done, torch.full_like(nxt, END), nxt)
        done = done | (nxt == END)
        bars = bars + (nxt == BAR)
        pos += ids.shape[1]
        ids = nxt[:, None]
        out.append(nxt)
        torch_xla.sync()
    return torch.stack(out, 1), bars


def main(args):
    device = torch_xla.device()
    torch.manual_seed(args.seed)
    model = PianoModel().to(device).eval()
    prompt = torch.randint(3, 90, (args.batch, args.prompt)).to(device)
    torch_xla.sync()
    tokens, bars = generate(model, prompt, args.new)
    print(tokens.cpu().tolist(), bars.cpu().tolist())


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch", type=int, default=2)
    ap.add_argument("--prompt", type=int, default=6)
    ap.add_argument("--new", type=int, default=8)
    ap.add_argument("--seed", type=int, default=4)
    main(ap.parse_args())
