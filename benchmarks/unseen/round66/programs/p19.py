"""Jet tagging (quark / gluon / W) on variable numbers of constituents with a particle transformer.

Events are sorted into classes of multiplicity and padded to a power of two; pairwise angular distances bias the attention.
"""
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CLASSES = ("quark", "gluon", "w_boson")
SMALLEST, LARGEST = 8, 32
BATCH = 12
STEPS = 50
SEED = 31


def shower(rng, kind):
    """Constituents (pt fraction, eta, phi); gluon jets are wider and richer, W jets have two prongs."""
    n = int(np.clip(rng.poisson((13, 20, 12)[kind]), 4, LARGEST))
    pt = rng.dirichlet(np.full(n, (0.5, 0.9, 0.6)[kind]))
    centre = np.zeros((n, 2))
    if kind == 2:
        axis = rng.normal(0, 1, 2)
        axis *= 0.25 / np.linalg.norm(axis)
        centre = np.where(rng.random((n, 1)) < 0.5, axis, -axis)
    angle = centre + rng.normal(0, (0.08, 0.15, 0.06)[kind], (n, 2))
    return np.concatenate([np.log(pt[:, None] + 1e-4), angle], 1).astype(np.float32)


def padded_length(n):
    return min(LARGEST, max(SMALLEST, 2 ** math.ceil(math.log2(n))))


class JetStream:
    """Draws events until one of the multiplicity classes holds a full batch."""

    def __init__(self, rng, batch):
        self.rng, self.batch = rng, batch
        self.shelf = {}

    def __iter__(self):
        while True:
            kind = int(self.rng.integers(0, len(CLASSES)))
            jet = shower(self.rng, kind)
            shelf = self.shelf.setdefault(padded_length(len(jet)), [])
            shelf.append((jet, kind))
            if len(shelf) == self.batch:
                yield self.collate(shelf)
                shelf.clear()

    @staticmethod
    def collate(events):
        width = padded_length(max(len(jet) for jet, _ in events))
        x = np.zeros((len(events), width, 3), np.float32)
        mask = np.zeros((len(events), width), bool)
        for i, (jet, _) in enumerate(events):
            x[i, :len(jet)] = jet
            mask[i, :len(jet)] = True
        kinds = np.array([k for _, k in events])
        return torch.from_numpy(x), torch.from_numpy(mask), torch.from_numpy(kinds)


class ParticleBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, bias):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(d // self.heads) + bias, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.norm2(x))


class ParticleTransformer(nn.Module):
    def __init__(self, dim=24, heads=2, depth=2):
        super().__init__()
        self.embed = nn.Linear(3, dim)
        self.pair = nn.Sequential(nn.Linear(2, 8), nn.GELU(), nn.Linear(8, heads))
        self.blocks = nn.ModuleList(ParticleBlock(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, len(CLASSES))

    def forward(self, x, mask):
        delta = x[:, :, None, 1:] - x[:, None, :, 1:]
        dr = delta.square().sum(-1).add(1e-6).log()
        kt = dr + torch.minimum(x[:, :, None, 0], x[:, None, :, 0])
        bias = self.pair(torch.stack([dr, kt], -1)).permute(0, 3, 1, 2)
        bias = bias.masked_fill(~mask[:, None, None, :], -1e4)
        h = self.embed(x)
        for block in self.blocks:
            h = block(h, bias)
        keep = mask.unsqueeze(-1).to(h.dtype)
        return self.head((h * keep).sum(1) / keep.sum(1))


def main():
    random.seed(SEED)
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    device = torch_xla.device()
    net = ParticleTransformer().to(device)
    optimizer = torch.optim.RAdam(net.parameters(), lr=3e-3)
    hits = torch.zeros((), device=device)
    for step, (x, mask, kind) in enumerate(JetStream(rng, BATCH), start=1):
        x, mask, kind = x.to(device), mask.to(device), kind.to(device)
        logits = net(x, mask)
        loss = F.cross_entropy(logits, kind, label_smoothing=0.05)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        hits += logits.detach().argmax(-1).eq(kind).sum()
        torch_xla.sync()
        if step % 10 == 0:
            print(f"step {step:3d}  width {x.shape[1]:2d}  loss {loss.item():.3f}  accuracy {hits.item() / (step * BATCH):.3f}")
        if step == STEPS:
            break


if __name__ == "__main__":
    main()
