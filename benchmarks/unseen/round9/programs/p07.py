"""Character language model on a continuous stream with a recurrent segment memory."""
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class MemoryAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.o = nn.Linear(dim, dim)

    def split(self, x):
        b, t, d = x.shape
        return x.view(b, t, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, x, mem, mask):
        q = self.split(self.q(x))
        k, v = (self.split(z) for z in self.kv(torch.cat([mem, x], 1)).chunk(2, -1))
        att = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        att = att.masked_fill(mask, -1e9).softmax(-1)
        return self.o((att @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = MemoryAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 3 * dim), nn.GELU(), nn.Linear(3 * dim, dim))

    def forward(self, x, mem, mask):
        x = x + self.att(self.n1(x), self.n1(mem), mask)
        return x + self.ff(self.n2(x))


class StreamLM(nn.Module):
    def __init__(self, vocab=30, dim=32, heads=4, depth=2, seg=16, max_pos=1024):
        super().__init__()
        self.seg, self.depth, self.dim = seg, depth, dim
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_pos, dim)
        self.layers = nn.ModuleList([Layer(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)
        future = torch.ones(seg, seg).triu(1).bool()
        self.register_buffer("mask", torch.cat([torch.zeros(seg, seg).bool(), future], 1))

    def empty_memory(self, batch):
        return [self.tok.weight.new_zeros(batch, self.seg, self.dim) for _ in range(self.depth)]

    def forward(self, tokens, mems, offset):
        positions = torch.arange(offset, offset + tokens.size(1), device=tokens.device)
        x = self.tok(tokens) + self.pos(positions)
        new_mems = []
        for layer, mem in zip(self.layers, mems):
            new_mems.append(x.detach())
            x = layer(x, mem, self.mask)
        return self.head(self.norm(x)), new_mems


def stream(batch, length, vocab=30, seed=3):
    g = torch.Generator().manual_seed(seed)
    steps = torch.randint(1, 4, (batch, length), generator=g)
    return steps.cumsum(1) % vocab


class Trainer:
    def __init__(self, device, batch=8, segments=10):
        self.device = device
        self.model = StreamLM().to(device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.batch = batch
        self.data = stream(batch, segments * self.model.seg + 1)

    def segments(self):
        seg = self.model.seg
        for start in range(0, self.data.size(1) - 1, seg):
            x = self.data[:, start:start + seg].contiguous()
            y = self.data[:, start + 1:start + seg + 1].contiguous()
            yield start, x.to(self.device), y.to(self.device)

    def epoch(self):
        mems = self.model.empty_memory(self.batch)
        losses = []
        for offset, x, y in self.segments():
            logits, mems = self.model(x, mems, offset)
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            torch_xla.sync()
            losses.append(loss.detach())
        return sum(l.item() for l in losses) / len(losses)


def main():
    torch.manual_seed(0)
    trainer = Trainer(torch_xla.device())
    for epoch in range(2):
        tic = time.time()
        loss = trainer.epoch()
        print(f"epoch {epoch} ppl {math.exp(loss):.2f} ({time.time() - tic:.1f}s)")


if __name__ == "__main__":
    main()
