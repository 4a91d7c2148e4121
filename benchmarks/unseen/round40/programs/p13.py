"""Segment-recurrent transformer for symbolic music: long event streams are cut
into segments and every layer attends to the cached states of earlier ones."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB = 48
SEGMENT = 16
MEM_LEN = 32
STREAMS = 4


def make_streams(length, generator):
    """Event streams with a slowly drifting key and a fixed rhythm."""
    t = torch.arange(length)
    key = torch.randint(0, 12, (STREAMS, 1), generator=generator)
    drift = (t[None] // 60) * 5
    melody = torch.tensor([0, 4, 7, 4, 2, 5, 9, 5])[t % 8][None]
    noise = (torch.rand(STREAMS, length, generator=generator) < 0.1).long() * 12
    return (key + drift + melody + noise) % VOCAB


class RelativeAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.query = nn.Linear(dim, dim, bias=False)
        self.key_value = nn.Linear(dim, 2 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.slope = nn.Parameter(torch.logspace(-1, -2.5, heads))

    def split(self, x):
        b, t, _ = x.shape
        return x.view(b, t, self.heads, self.head_dim).transpose(1, 2)

    def forward(self, x, memory):
        context = x if memory is None else torch.cat([memory, x], dim=1)
        q = self.split(self.query(x))
        k, v = (self.split(z) for z in self.key_value(context).chunk(2, dim=-1))
        tq, tk = q.size(2), k.size(2)
        q_pos = torch.arange(tk - tq, tk, device=x.device)
        distance = (q_pos[:, None] - torch.arange(tk, device=x.device)[None]).float()
        score = q @ k.transpose(-1, -2) / math.sqrt(self.head_dim)
        score = score - self.slope.abs()[:, None, None] * distance
        score = score.masked_fill(distance < 0, -1e4)
        y = (score.softmax(dim=-1) @ v).transpose(1, 2).flatten(2)
        return self.out(y)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = RelativeAttention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, memory):
        mem = None if memory is None else self.norm1(memory)
        x = x + self.attn(self.norm1(x), mem)
        return x + self.mlp(self.norm2(x))


class MusicXL(nn.Module):
    def __init__(self, dim=32, heads=4, layers=2):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, VOCAB)

    def extend(self, memory, hidden):
        hidden = hidden.detach()
        if memory is None:
            return hidden
        joined = torch.cat([memory, hidden], dim=1)
        start = max(0, hidden.size(1) - MEM_LEN)
        return joined[:, start:]

    def forward(self, tokens, memories=None):
        if memories is None:
            memories = [None] * len(self.blocks)
        x = self.embed(tokens)
        new_memories = []
        for block, memory in zip(self.blocks, memories):
            new_memories.append(self.extend(memory, x))
            x = block(x, memory)
        return self.head(self.norm(x)), new_memories


def main():
    torch.manual_seed(3)
    generator = torch.Generator().manual_seed(3)
    device = torch_xla.device()
    segments = 18
    streams = make_streams(segments * SEGMENT + 1, generator)

    model = MusicXL().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.8)
    memories = None
    running = torch.zeros((), device=device)

    for step in range(segments):
        lo = step * SEGMENT
        chunk = streams[:, lo:lo + SEGMENT + 1].to(device)
        optimizer.zero_grad()
        logits, memories = model(chunk[:, :-1], memories)
        loss = F.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())
        loss.backward()
        xm.optimizer_step(optimizer)
        running = 0.9 * running + 0.1 * loss.detach()
        torch_xla.sync()
        if (step + 1) % 6 == 0:
            print(f"segment {step + 1} loss {running.item():.4f}")


if __name__ == "__main__":
    main()
