"""Greedy generation with a static key/value cache."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Config:
    vocab = 64
    dim = 32
    heads = 2
    layers = 2
    max_len = 24
    batch = 2


class CachedSelfAttention(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.h, self.hd = c.heads, c.dim // c.heads
        self.q = nn.Linear(c.dim, c.dim, bias=False)
        self.k = nn.Linear(c.dim, c.dim, bias=False)
        self.v = nn.Linear(c.dim, c.dim, bias=False)
        self.o = nn.Linear(c.dim, c.dim, bias=False)

    def forward(self, x, cache, pos, visible):
        b, d = x.shape
        q = self.q(x).view(b, self.h, self.hd)
        cache["k"][:, :, pos] = self.k(x).view(b, self.h, self.hd)
        cache["v"][:, :, pos] = self.v(x).view(b, self.h, self.hd)
        score = torch.einsum("bhd,bhtd->bht", q, cache["k"]) / math.sqrt(self.hd)
        score = score.masked_fill(~visible, -1e9)
        out = torch.einsum("bht,bhtd->bhd", score.softmax(dim=-1), cache["v"])
        return self.o(out.reshape(b, d))


class Layer(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(c.dim), nn.LayerNorm(c.dim)
        self.att = CachedSelfAttention(c)
        self.up, self.down = nn.Linear(c.dim, 4 * c.dim), nn.Linear(4 * c.dim, c.dim)

    def forward(self, x, cache, pos, visible):
        x = x + self.att(self.ln1(x), cache, pos, visible)
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class TinyGPT(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.c = c
        self.tok = nn.Embedding(c.vocab, c.dim)
        self.pos = nn.Parameter(torch.randn(c.max_len, c.dim) * 0.02)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.layers))
        self.ln = nn.LayerNorm(c.dim)

    def new_cache(self, device):
        shape = (self.c.batch, self.c.heads, self.c.max_len, self.c.dim // self.c.heads)
        return [
            {"k": torch.zeros(shape, device=device), "v": torch.zeros(shape, device=device)}
            for _ in self.layers
        ]

    def forward(self, token, caches, pos, visible):
        x = self.tok(token) + self.pos[pos]
        for layer, cache in zip(self.layers, caches):
            x = layer(x, cache, pos, visible)
        return self.ln(x) @ self.tok.weight.t()


@torch.no_grad()
def greedy(model, prompt, new_tokens, device):
    caches = model.new_cache(device)
    visible = torch.zeros(model.c.max_len, dtype=torch.bool, device=device)
    slots = torch.arange(model.c.max_len, device=device)
    torch_xla.sync()
    prompt = prompt.to(device)
    length = prompt.shape[1]
    columns = [c.clone() for c in prompt.unbind(dim=1)]
    cursor = torch.zeros((), dtype=torch.long, device=device)
    torch_xla.sync()
    generated, token = [], columns[0]
    for pos in range(length + new_tokens - 1):
        visible = slots <= cursor
        logits = model(token, caches, pos, visible)
        token = columns[pos + 1] if pos + 1 < length else logits.argmax(dim=-1)
        cursor = cursor + 1
        if pos + 1 >= length:
            generated.append(token)
        del logits
        torch_xla.sync()
    return torch.stack(generated, dim=1).cpu()


def main():
    torch.manual_seed(1)
    device = torch_xla.device()
    c = Config()
    model = TinyGPT(c).to(device).eval()
    prompt = torch.randint(0, c.vocab, (c.batch, 4))
    for row in greedy(model, prompt, 8, device).tolist():
        print(" ".join(map(str, row)))


if __name__ == "__main__":
    main()
