"""Transformer-XL over symbolic piano (event tokens), segment recurrence."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

EVENTS = 48


class RelAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.dh = heads, dim // heads
        self.q = nn.Linear(dim, dim, bias=False)
        self.kv = nn.Linear(dim, 2 * dim, bias=False)
        self.r = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.u = nn.Parameter(torch.zeros(heads, self.dh))
        self.v = nn.Parameter(torch.zeros(heads, self.dh))

    @staticmethod
    def rel_shift(x):
        b, h, i, j = x.shape
        x = F.pad(x, (1, 0)).view(b, h, j + 1, i)
        return x[:, :, 1:].reshape(b, h, i, j)

    def forward(self, x, mem, pos):
        ctx = x if mem is None else torch.cat([mem, x], 1)
        b, i, d = x.shape
        j = ctx.shape[1]
        q = self.q(x).view(b, i, self.heads, self.dh)
        k, v = self.kv(ctx).view(b, j, 2, self.heads, self.dh).unbind(2)
        r = self.r(pos[-j:]).view(j, self.heads, self.dh)
        content = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        position = self.rel_shift(torch.einsum("bihd,jhd->bhij", q + self.v, r))
        causal = torch.ones(i, j, device=x.device, dtype=torch.bool).triu(1 + j - i)
        att = ((content + position) * self.dh ** -0.5).masked_fill(causal, float("-inf")).softmax(-1)
        return self.o(torch.einsum("bhij,bjhd->bihd", att, v).reshape(b, i, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attn = RelAttention(dim, heads)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, mem, pos):
        x = self.n1(x + self.attn(x, mem, pos))
        return self.n2(x + self.ff(x))


class PianoXL(nn.Module):
    def __init__(self, dim=16, heads=2, layers=1, mem_len=20):
        super().__init__()
        self.emb = nn.Embedding(EVENTS, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.mem_len = mem_len
        self.register_buffer("inv", 1.0 / 10000 ** (torch.arange(0, dim, 2).float() / dim))

    def forward(self, ids, mems):
        x = self.emb(ids)
        klen = ids.shape[1] + self.mem_len
        ang = torch.arange(klen - 1, -1, -1.0, device=x.device)[:, None] * self.inv
        pos = torch.cat([ang.sin(), ang.cos()], -1)
        kept = []
        for layer, mem in zip(self.layers, mems):
            seen = x if mem is None else torch.cat([mem, x], 1)
            kept.append(seen[:, max(0, seen.shape[1] - self.mem_len):].detach())
            x = layer(x, mem, pos)
        return F.linear(x, self.emb.weight), kept


def pieces(batch, length, seed):
    rng = np.random.default_rng(seed)
    motif = rng.integers(0, EVENTS, (batch, 12))
    line = np.tile(motif, (1, length // 12 + 1))[:, :length]
    noise = rng.random(line.shape) < 0.1
    return torch.tensor(np.where(noise, rng.integers(0, EVENTS, line.shape), line))


def main(seg=8, steps=6):
    torch.manual_seed(1)
    device = torch_xla.device()
    model = PianoXL().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 50)
    events = pieces(4, seg * steps + 1, seed=6)
    mems = [None] * len(model.layers)
    xm.mark_step()
    for step in range(steps):
        chunk = events[:, step * seg:(step + 1) * seg + 1].to(device)
        logits, mems = model(chunk[:, :-1], mems)
        loss = F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        opt.step()
        sched.step()
        xm.mark_step()
        print(step, mems[0].shape[1], loss.item())


if __name__ == "__main__":
    main()
