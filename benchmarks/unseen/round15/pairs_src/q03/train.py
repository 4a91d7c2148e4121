"""Contrastive pre-training on multispectral tiles with a memory of past embeddings."""
import copy
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

TILE, BANDS, BATCH, DIM, MEMORY = 12, 4, 16, 24, 64


def tile_stream(seed):
    g = torch.Generator().manual_seed(seed)
    while True:
        base = torch.randn(BATCH, BANDS, 3, 3, generator=g)
        yield F.interpolate(base, size=(TILE, TILE), mode="bilinear", align_corners=False)


def two_views(x):
    a = x + 0.1 * torch.randn_like(x)
    b = torch.flip(x, dims=[-1]) * (0.8 + 0.4 * torch.rand(x.size(0), BANDS, 1, 1))
    return a, b


class Backbone(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Conv2d(BANDS, width, 3, stride=2, padding=1)
        self.body = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, 2 * width)
        self.proj = nn.Linear(2 * width, DIM)

    def forward(self, x):
        x = F.relu(self.stem(x))
        x = F.relu(self.norm(self.body(x)))
        return F.normalize(self.proj(x.mean(dim=(2, 3))), dim=1)


class TileMemory(nn.Module):
    def __init__(self, encoder, momentum=0.99, temperature=0.2):
        super().__init__()
        self.query = encoder
        self.key = copy.deepcopy(encoder).requires_grad_(False)
        self.m, self.t = momentum, temperature
        self.register_buffer("bank", F.normalize(torch.randn(MEMORY, DIM), dim=1))
        self.cursor = 0

    @torch.no_grad()
    def follow(self):
        for pk, pq in zip(self.key.parameters(), self.query.parameters()):
            pk.mul_(self.m).add_(pq, alpha=1 - self.m)

    @torch.no_grad()
    def remember(self, keys):
        n = keys.size(0)
        self.bank[self.cursor:self.cursor + n] = keys
        self.cursor = (self.cursor + n) % MEMORY

    def forward(self, view_q, view_k):
        q = self.query(view_q)
        with torch.no_grad():
            self.follow()
            k = self.key(view_k)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.bank.clone().t()
        logits = torch.cat([pos, neg], 1) / self.t
        self.remember(k)
        return F.cross_entropy(logits, torch.zeros(q.size(0), dtype=torch.long, device=q.device))


def main(steps=40):
    torch.manual_seed(3)
    dev = torch_xla.device()
    net = TileMemory(Backbone()).to(dev)
    opt = torch.optim.SGD(net.query.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    running = []
    for i, x in enumerate(itertools.islice(tile_stream(9), steps), 1):
        va, vb = (v.to(dev) for v in two_views(x))
        loss = net(va, vb)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        running.append(loss.detach())
        if i % 10 == 0:
            print(f"step {i:3d}  nce {torch.stack(running).mean().item():.4f}  "
                  f"graphs {met.counter_value('UncachedCompile')}")
            running.clear()


if __name__ == "__main__":
    main()
