"""One decode step of a small symbolic-music model with a key/value cache.

usage: python after.py OUT.hlo
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

BATCH, SLOTS, VOCAB, DIM, HEADS, KV_HEADS, LAYERS = 2, 16, 37, 16, 4, 2, 3
HEAD_DIM = DIM // HEADS
SOFTCAP = 6.0
DUMP_STEP = 2


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class CachedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIM, HEADS * HEAD_DIM, bias=False)
        self.kv = nn.Linear(DIM, 2 * KV_HEADS * HEAD_DIM, bias=False)
        self.o = nn.Linear(HEADS * HEAD_DIM, DIM, bias=False)

    def forward(self, x, cache, slot, visible, cos, sin):
        k_cache, v_cache = cache
        q = self.q(x).view(BATCH, KV_HEADS, HEADS // KV_HEADS, HEAD_DIM)
        k, v = self.kv(x).view(BATCH, 2, KV_HEADS, HEAD_DIM).unbind(1)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k_cache.index_copy_(2, slot, k.unsqueeze(2))
        v_cache.index_copy_(2, slot, v.unsqueeze(2))
        logits = torch.matmul(q, k_cache.transpose(-1, -2)) * HEAD_DIM ** -0.5
        logits = logits.masked_fill(~visible, torch.finfo(logits.dtype).min)
        logits = SOFTCAP * torch.tanh(logits / SOFTCAP)
        out = torch.matmul(torch.softmax(logits, dim=-1), v_cache)
        return self.o(out.reshape(BATCH, -1))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.pre, self.post = RMSNorm(DIM), RMSNorm(DIM)
        self.attn = CachedAttention()
        self.gate = nn.Linear(DIM, 2 * DIM, bias=False)
        self.up = nn.Linear(DIM, 2 * DIM, bias=False)
        self.down = nn.Linear(2 * DIM, DIM, bias=False)

    def forward(self, x, *args):
        x = x + self.attn(self.pre(x), *args)
        h = self.post(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class MusicLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        nn.init.normal_(self.embed.weight, std=0.2)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm = RMSNorm(DIM)
        self.register_buffer("inv_freq", 10000.0 ** -(torch.arange(HEAD_DIM // 2).float() / (HEAD_DIM // 2)))
        self.register_buffer("slots", torch.arange(SLOTS))

    def forward(self, token, pos, caches):
        slot = pos.view(1)
        visible = self.slots <= pos
        angle = pos.float() * self.inv_freq
        cos, sin = angle.cos(), angle.sin()
        x = self.embed(token) * DIM ** 0.5
        for layer, cache in zip(self.layers, caches):
            x = layer(x, cache, slot, visible, cos, sin)
        return F.linear(self.norm(x), self.embed.weight)


def sample(logits, seen, noise, temperature=0.83, penalty=1.17, top_p=0.9):
    """Repetition penalty, nucleus cut, Gumbel draw."""
    used = torch.where(logits > 0, logits / penalty, logits * penalty)
    logits = torch.where(seen, used, logits) / temperature
    sorted_logits, order = torch.sort(logits, dim=-1, descending=True)
    probs = torch.softmax(sorted_logits, dim=-1)
    drop = probs.cumsum(-1) - probs > top_p
    sorted_logits = sorted_logits.masked_fill(drop, float("-inf"))
    pick = torch.argmax(sorted_logits + noise, dim=-1, keepdim=True)
    return order.gather(-1, pick).squeeze(-1)


@torch.no_grad()
def main(path):
    device = torch_xla.device()
    torch.manual_seed(13)
    model = MusicLM().to(device).eval()
    shape = (BATCH, KV_HEADS, SLOTS, HEAD_DIM)
    caches = [(torch.zeros(shape, device=device), torch.zeros(shape, device=device)) for _ in range(LAYERS)]
    token = torch.tensor([3, 21], device=device)
    pos = torch.tensor(0, device=device)
    seen = torch.zeros(BATCH, VOCAB, dtype=torch.bool, device=device)
    gen = torch.Generator().manual_seed(1)
    torch_xla.sync()
    for step in range(5):
        u = torch.rand(BATCH, VOCAB, generator=gen)
        noise = (-torch.log(-torch.log(u))).to(device)
        logits = model(token, pos, caches)
        seen = seen | F.one_hot(token, VOCAB).bool()
        token = sample(logits, seen, noise)
        pos = pos + 1
        if step == DUMP_STEP:
            pend = [token, pos, seen, logits] + [t for pair in caches for t in pair]
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(pend))
        torch_xla.sync()
        print(step, token.tolist(), logits.abs().sum().item())


if __name__ == "__main__":
    main(sys.argv[1])
