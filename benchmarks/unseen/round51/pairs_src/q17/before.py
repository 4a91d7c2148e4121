"""One decoding step of a small symbolic-music transformer (event tokens, KV cache)."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, DIM, HEADS, KV_HEADS, DEPTH, MAX_LEN = 40, 16, 4, 2, 3, 12
HEAD_DIM = DIM // HEADS
BATCH = 2


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotary_angles(pos, theta=10000.0):
    freq = theta ** (-torch.arange(0, HEAD_DIM, 2, device=pos.device).float() / HEAD_DIM)
    return pos.float().unsqueeze(-1) * freq


def apply_rotary(x, angles):
    """x: (batch, heads, 1, head_dim), angles: (1, head_dim / 2)"""
    cos, sin = torch.cos(angles), torch.sin(angles)
    x1, x2 = x[..., 0::2], x[..., 1::2]
    out = torch.stack([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1)
    return out.flatten(-2)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIM, HEADS * HEAD_DIM, bias=False)
        self.k = nn.Linear(DIM, KV_HEADS * HEAD_DIM, bias=False)
        self.v = nn.Linear(DIM, KV_HEADS * HEAD_DIM, bias=False)
        self.o = nn.Linear(HEADS * HEAD_DIM, DIM, bias=False)

    def forward(self, x, pos, angles, cache_k, cache_v):
        b = x.shape[0]
        q = self.q(x).view(b, 1, HEADS, HEAD_DIM).transpose(1, 2)
        k = self.k(x).view(b, 1, KV_HEADS, HEAD_DIM).transpose(1, 2)
        v = self.v(x).view(b, 1, KV_HEADS, HEAD_DIM).transpose(1, 2)
        q, k = apply_rotary(q, angles), apply_rotary(k, angles)
        cache_k.index_copy_(2, pos, k)
        cache_v.index_copy_(2, pos, v)
        keys = cache_k.repeat_interleave(HEADS // KV_HEADS, dim=1)
        values = cache_v.repeat_interleave(HEADS // KV_HEADS, dim=1)
        scores = q @ keys.transpose(-1, -2) / HEAD_DIM ** 0.5
        visible = torch.arange(MAX_LEN, device=x.device) <= pos
        scores = scores.masked_fill(~visible, float("-inf"))
        out = torch.softmax(scores, dim=-1) @ values
        return self.o(out.transpose(1, 2).reshape(b, 1, HEADS * HEAD_DIM))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(DIM), RMSNorm(DIM)
        self.attn = Attention()
        self.gate = nn.Linear(DIM, 2 * DIM, bias=False)
        self.up = nn.Linear(DIM, 2 * DIM, bias=False)
        self.down = nn.Linear(2 * DIM, DIM, bias=False)

    def forward(self, x, pos, angles, ck, cv):
        x = x + self.attn(self.norm1(x), pos, angles, ck, cv)
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class MusicLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.ModuleList([Block() for _ in range(DEPTH)])
        self.norm = RMSNorm(DIM)
        self.head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, token, pos, caches):
        x = self.embed(token)
        angles = rotary_angles(pos)
        for block, (ck, cv) in zip(self.blocks, caches):
            x = block(x, pos, angles, ck, cv)
        return self.head(self.norm(x))[:, -1]


@torch.no_grad()
def decode_step(model, token, pos, caches, counts, temperature=0.9, penalty=0.3):
    logits = model(token, pos, caches) - penalty * counts
    log_p = F.log_softmax(logits / temperature, dim=-1)
    top, idx = torch.topk(log_p, 4, dim=-1)
    nxt = idx[:, :1]
    counts = counts + F.one_hot(nxt[:, 0], VOCAB).to(counts.dtype)
    return nxt, pos + 1, counts, top


def main():
    steps = int(os.environ.get("STEPS", 3))
    device = torch_xla.device()
    torch.manual_seed(51)
    model = MusicLM().eval().to(device)
    caches = [(torch.zeros(BATCH, KV_HEADS, MAX_LEN, HEAD_DIM, device=device),
               torch.zeros(BATCH, KV_HEADS, MAX_LEN, HEAD_DIM, device=device)) for _ in range(DEPTH)]
    token = torch.tensor([[3], [17]]).to(device)
    pos = torch.tensor([0]).to(device)
    counts = torch.zeros(BATCH, VOCAB, device=device)
    torch_xla.sync()

    for step in range(1, steps + 1):
        token, pos, counts, top = decode_step(model, token, pos, caches, counts)
        if step == steps and len(sys.argv) > 1:
            live = [token, pos, counts, top] + [t for pair in caches for t in pair]
            with open(sys.argv[1], "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, token.flatten().tolist(), top[0].tolist())


if __name__ == "__main__":
    main()
