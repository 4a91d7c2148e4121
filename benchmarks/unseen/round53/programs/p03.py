"""Layer-sampled fine-tuning of a small byte-level LM: embeddings and head always train, plus a few blocks."""
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

TEXT = (
    "the harbour pilot climbed aboard at dawn and set the course by the old light. "
    "rain came over the breakwater, and the tugs waited with slack lines until noon. "
    "nobody on the quay could say whether the cargo was timber, tin or tea. "
) * 30


@dataclass
class Config:
    vocab: int = 128
    dim: int = 32
    heads: int = 4
    depth: int = 6
    ctx: int = 32
    batch: int = 8
    steps: int = 20
    lr: float = 2e-3
    active_blocks: int = 2
    interval: int = 2
    seed: int = 1234


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, bias):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-1, -2)) * (d // self.heads) ** -0.5 + bias
        x = x + self.proj((att.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


class ByteLM(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok = nn.Embedding(c.vocab, c.dim)
        self.pos = nn.Parameter(torch.randn(c.ctx, c.dim) * 0.02)
        self.blocks = nn.ModuleList(Block(c.dim, c.heads) for _ in range(c.depth))
        self.norm = nn.LayerNorm(c.dim)
        self.head = nn.Linear(c.dim, c.vocab, bias=False)
        self.register_buffer("bias", torch.full((c.ctx, c.ctx), float("-inf")).triu(1), persistent=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos
        for blk in self.blocks:
            x = blk(x, self.bias)
        return self.head(self.norm(x))


class LayerSampler:
    def __init__(self, blocks, n_active, interval, seed):
        self.blocks = blocks
        self.n_active = n_active
        self.interval = interval
        self.rng = random.Random(seed)
        self.active = []

    def _switch(self, indices):
        for i, blk in enumerate(self.blocks):
            for p in blk.parameters():
                p.requires_grad_(i in indices)
        self.active = sorted(indices)

    def on_step_begin(self, step):
        if step % self.interval == 0:
            self._switch(set(self.rng.sample(range(len(self.blocks)), self.n_active)))


def batches(c, gen):
    data = torch.tensor(list(TEXT.encode()), dtype=torch.long)
    while True:
        ix = torch.randint(len(data) - c.ctx - 1, (c.batch,), generator=gen)
        x = torch.stack([data[i:i + c.ctx] for i in ix])
        y = torch.stack([data[i + 1:i + 1 + c.ctx] for i in ix])
        yield x, y


def main():
    c = Config()
    random.seed(c.seed)
    torch.manual_seed(c.seed)
    device = torch_xla.device()
    model = ByteLM(c).to(device)
    sampler = LayerSampler(model.blocks, c.active_blocks, c.interval, c.seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=c.lr * 20, momentum=0.0, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=c.lr * 40, total_steps=c.steps + 1, cycle_momentum=False)
    stream = batches(c, torch.Generator().manual_seed(c.seed))
    running = torch.zeros((), device=device)

    for step in range(c.steps):
        sampler.on_step_begin(step)
        x, y = next(stream)
        x, y = x.to(device), y.to(device)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        scheduler.step()
        running = running * 0.9 + loss.detach() * 0.1
        torch_xla.sync()
        if (step + 1) % 4 == 0:
            print(f"step {step + 1} blocks {sampler.active} loss {loss.item():.3f} avg {running.item():.3f}")


if __name__ == "__main__":
    main()
