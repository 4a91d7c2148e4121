"""Event-sequence model: causal transformer whose heads look at a local window of the past."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

WINDOW = 4


def rotary(x, base=1000.0):
    b, h, t, d = x.shape
    inv = base ** (-torch.arange(0, d, 2, device=x.device).float() / d)
    ang = torch.arange(t, device=x.device).float()[:, None] * inv[None]
    cos, sin = ang.cos(), ang.sin()
    x1, x2 = x[..., : d // 2], x[..., d // 2:]
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1)


class LocalAttention(nn.Module):

    def __init__(self, dim, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def band(self, t, device):
        pos = torch.arange(t, device=device)
        dist = pos.unsqueeze(1) - pos.unsqueeze(0)
        return (dist >= 0) & (dist < self.window)

    def forward(self, x, lengths):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k = rotary(q), rotary(k)
        valid = torch.arange(t, device=x.device)[None] < lengths[:, None]
        mask = self.band(t, x.device)[None, None] & valid[:, None, None, :]
        att = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1))
        att = att.masked_fill(~mask, -1e4).softmax(-1)
        return self.out((att @ v).transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):

    def __init__(self, dim, heads, window):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(dim, eps=1e-6), nn.RMSNorm(dim, eps=1e-6)
        self.attn = LocalAttention(dim, heads, window)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x, lengths):
        x = x + self.attn(self.n1(x), lengths)
        value, gate = self.up(self.n2(x)).chunk(2, dim=-1)
        return x + self.down(value * F.silu(gate))


class EventModel(nn.Module):

    def __init__(self, n_types=15, dim=16, heads=2, depth=1, window=WINDOW):
        super().__init__()
        self.types = nn.Embedding(n_types, dim)
        self.gap = nn.Linear(1, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, window) for _ in range(depth))
        self.norm = nn.RMSNorm(dim, eps=1e-6)
        self.next_type = nn.Linear(dim, n_types)
        self.rate = nn.Linear(dim, 1)

    def forward(self, types, gaps, lengths):
        x = self.types(types) + self.gap(gaps.log1p().unsqueeze(-1))
        for blk in self.blocks:
            x = blk(x, lengths)
        x = self.norm(x)
        return self.next_type(x), F.softplus(self.rate(x)).squeeze(-1) + 1e-3


def objective(logits, rate, types, gaps, lengths):
    keep = (torch.arange(types.size(1) - 1, device=types.device)[None] < lengths[:, None] - 1).float()
    ce = F.cross_entropy(logits[:, :-1].transpose(1, 2), types[:, 1:], reduction="none")
    nll = rate[:, :-1] * gaps[:, 1:] - rate[:, :-1].log()
    return ((ce + nll) * keep).sum() / keep.sum()


def synth(n, t, gen):
    types = torch.randint(0, 15, (n, t), generator=gen)
    gaps = torch.empty(n, t).exponential_(1.0, generator=gen)
    lengths = torch.randint(t // 2, t + 1, (n,), generator=gen)
    return types, gaps, lengths


def main(steps=3):
    torch.manual_seed(7)
    gen = torch.Generator().manual_seed(7)
    device = torch_xla.device()
    model = EventModel().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    torch_xla.sync()
    for step in range(steps):
        types, gaps, lengths = (x.to(device) for x in synth(6, 12, gen))
        opt.zero_grad()
        logits, rate = model(types, gaps, lengths)
        loss = objective(logits, rate, types, gaps, lengths)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(f"{step}: {loss.item():.5f}")


if __name__ == "__main__":
    main()
