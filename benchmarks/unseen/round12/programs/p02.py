"""Next-item recommendation from click sessions, SASRec-like."""
import random
from collections import defaultdict
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm


@dataclass
class Cfg:
    n_items: int = 200
    dim: int = 32
    heads: int = 2
    layers: int = 2
    batch: int = 16
    edges: tuple = (8, 16, 24)
    epochs: int = 3
    lr: float = 2e-3
    log_every: int = 6


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, bias):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        w = (q @ k.transpose(-1, -2)) / (d // self.heads) ** 0.5 + bias
        x = x + self.out((w.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.ln2(x))


class SessionModel(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.items = nn.Embedding(c.n_items + 1, c.dim, padding_idx=0)
        self.pos = nn.Embedding(max(c.edges), c.dim)
        self.blocks = nn.ModuleList(Block(c.dim, c.heads) for _ in range(c.layers))

    def forward(self, seq):
        t = seq.shape[1]
        x = self.items(seq) + self.pos(torch.arange(t, device=seq.device))
        bias = torch.full((t, t), -1e4, device=seq.device).triu(1)
        for blk in self.blocks:
            x = blk(x, bias)
        return x @ self.items.weight.t()


def sessions(n, c, rng):
    out = []
    for _ in range(n):
        start, step = rng.randrange(1, c.n_items), rng.choice((1, 2, 3))
        length = rng.randint(4, max(c.edges) + 1)
        out.append([1 + (start + i * step) % (c.n_items - 1) for i in range(length)])
    return out


class Loader:
    def __init__(self, data, c, rng):
        self.c, self.rng = c, rng
        self.groups = defaultdict(list)
        for s in data:
            edge = next(e for e in c.edges if len(s) - 1 <= e)
            self.groups[edge].append(s)

    def collate(self, chunk, edge):
        x = torch.zeros(len(chunk), edge, dtype=torch.long)
        y = torch.zeros(len(chunk), edge, dtype=torch.long)
        for i, s in enumerate(chunk):
            x[i, :len(s) - 1] = torch.tensor(s[:-1])
            y[i, :len(s) - 1] = torch.tensor(s[1:])
        return x, y

    def epoch(self, first):
        plan = []
        for edge, group in self.groups.items():
            self.rng.shuffle(group)
            for i in range(0, len(group) - self.c.batch + 1, self.c.batch):
                plan.append((edge, group[i:i + self.c.batch]))
        self.rng.shuffle(plan)
        if first:  # the longest first, so that memory trouble shows at once
            seen, head, tail = set(), [], []
            for item in sorted(plan, key=lambda p: -p[0]):
                (tail if item[0] in seen else head).append(item)
                seen.add(item[0])
            self.rng.shuffle(tail)
            plan = head + tail
        for edge, chunk in plan:
            yield self.collate(chunk, edge)


def main():
    c = Cfg()
    rng = random.Random(1)
    torch.manual_seed(1)
    device = xm.xla_device()
    model = SessionModel(c).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=c.lr, weight_decay=0.01)
    loader = Loader(sessions(230, c, rng), c, rng)
    step = 0
    for epoch in range(c.epochs):
        for x, y in loader.epoch(first=epoch == 0):
            x, y = x.to(device), y.to(device)
            opt.zero_grad()
            logits = model(x)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=0)
            loss.backward()
            xm.optimizer_step(opt, barrier=True)
            step += 1
            if step % c.log_every == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f} len {x.shape[1]}")


if __name__ == "__main__":
    main()
