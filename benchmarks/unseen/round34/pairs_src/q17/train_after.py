"""Sampling of note events from a small decoder with a fixed-size key/value cache."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, DIM, HEADS, KV, LAYERS, MAXLEN = 48, 16, 4, 2, 2, 16


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def rope(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.hd = DIM // HEADS
        self.n1, self.n2 = RMSNorm(DIM), RMSNorm(DIM)
        self.wq = nn.Linear(DIM, HEADS * self.hd, bias=False)
        self.wkv = nn.Linear(DIM, 2 * KV * self.hd, bias=False)
        self.wo = nn.Linear(HEADS * self.hd, DIM, bias=False)
        self.w1 = nn.Linear(DIM, 32, bias=False)
        self.w2 = nn.Linear(32, DIM, bias=False)
        self.w3 = nn.Linear(DIM, 32, bias=False)

    def forward(self, x, pos, cos, sin, cache, mask):
        b = x.shape[0]
        h = self.n1(x)
        q = self.wq(h).view(b, 1, HEADS, self.hd).transpose(1, 2)
        k, v = self.wkv(h).view(b, 1, 2, KV, self.hd).unbind(2)
        q, k, v = rope(q, cos, sin), rope(k.transpose(1, 2), cos, sin), v.transpose(1, 2)
        cache[0].index_copy_(2, pos, k)
        cache[1].index_copy_(2, pos, v)
        k = cache[0].repeat_interleave(HEADS // KV, dim=1)
        v = cache[1].repeat_interleave(HEADS // KV, dim=1)
        att = (q @ k.transpose(-2, -1)) * self.hd ** -0.5
        att = att.masked_fill(~mask, float("-inf")).softmax(-1)
        x = x + self.wo((att @ v).transpose(1, 2).reshape(b, 1, -1))
        h = self.n2(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class NoteLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        nn.init.normal_(self.emb.weight, std=0.2)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = RMSNorm(DIM)
        freq = 1.0 / 10000 ** (torch.arange(0, DIM // HEADS, 2) / (DIM // HEADS))
        ang = torch.outer(torch.arange(MAXLEN).float(), freq)
        self.register_buffer("cos", ang.cos())
        self.register_buffer("sin", ang.sin())

    def forward(self, tok, pos, caches):
        mask = torch.arange(MAXLEN, device=tok.device) <= pos
        cos, sin = self.cos[pos], self.sin[pos]
        x = self.emb(tok)
        for layer, cache in zip(self.layers, caches):
            x = layer(x, pos, cos, sin, cache, mask)
        return F.linear(self.norm(x), self.emb.weight)[:, -1]


def pick(logits, seen, temperature=0.8, top_k=20, top_p=0.9, penalty=1.2):
    logits = torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)
    kth = logits.topk(top_k, dim=-1).values[:, -1:]
    logits = logits.masked_fill(logits < kth, float("-inf"))
    srt, idx = logits.sort(dim=-1, descending=True)
    probs = srt.softmax(-1)
    drop = probs.cumsum(-1) - probs > top_p
    drop = torch.zeros_like(drop).scatter(-1, idx, drop)
    logits = logits.masked_fill(drop, float("-inf"))
    p = (logits / temperature).softmax(-1)
    return (p / torch.empty_like(p).exponential_(1.0)).argmax(-1, keepdim=True)


@torch.no_grad()
def compose(model, prompt, n, device):
    b = prompt.shape[0]
    shape = (b, KV, MAXLEN, DIM // HEADS)
    caches = [[torch.zeros(shape, device=device), torch.zeros(shape, device=device)] for _ in range(LAYERS)]
    seen = torch.zeros(b, VOCAB, dtype=torch.bool, device=device)
    pos = torch.zeros(1, dtype=torch.long, device=device)
    tok = prompt.to(device)
    torch_xla.sync()
    out = []
    for _ in range(n):
        seen = seen.scatter(1, tok, True)
        tok = pick(model(tok, pos, caches), seen)
        pos = pos + 1
        out.append(tok)
        torch_xla.sync()
    return torch.cat(out, 1).cpu()


if __name__ == "__main__":
    torch.manual_seed(9)
    dev = xm.xla_device()
    lm = NoteLM().to(dev).eval()
    print(compose(lm, torch.tensor([[3], [17]]), 6, dev).tolist())
