"""Self-attentive sequential recommendation with sampled softmax."""
import logging
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("seqrec")
log.setLevel(logging.INFO)


class Clicks(Dataset):
    """Users walk over a ring of items, with occasional jumps."""

    def __init__(self, users, items, length, negatives, seed):
        rng = np.random.RandomState(seed)
        steps = np.where(rng.rand(users, length + 1) < 0.85,
                         rng.randint(1, 4, (users, length + 1)),
                         rng.randint(0, items, (users, length + 1)))
        self.seq = (np.cumsum(steps, 1) % items + 1).astype(np.int64)
        self.neg = rng.randint(1, items + 1, (users, negatives)).astype(np.int64)

    def __len__(self):
        return len(self.seq)

    def __getitem__(self, i):
        return self.seq[i, :-1], self.seq[i, 1:], self.neg[i]


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm_a, self.norm_f = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.out = nn.Linear(dim, dim)
        self.ffn = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        B, L, D = x.shape
        q, k, v = self.qkv(self.norm_a(x)).chunk(3, -1)
        split = lambda t: t.view(B, L, self.heads, -1).transpose(1, 2)
        score = split(q) @ split(k).transpose(-1, -2) / math.sqrt(D // self.heads)
        att = (score + mask).softmax(-1) @ split(v)
        x = x + self.dropout(self.out(att.transpose(1, 2).reshape(B, L, D)))
        return x + self.dropout(self.ffn(self.norm_f(x)))


class SeqRec(nn.Module):
    def __init__(self, items, length, dim=16, heads=2, layers=4, dropout=0.1, layerdrop=0.2):
        super().__init__()
        self.item = nn.Embedding(items + 1, dim, padding_idx=0)
        self.pos = nn.Embedding(length, dim)
        self.layers = nn.ModuleList(EncoderLayer(dim, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.layerdrop = layerdrop
        self.register_buffer("mask", torch.full((length, length), -1e4).triu(1))
        self.register_buffer("position", torch.arange(length))

    def forward(self, seq):
        x = self.item(seq) + self.pos(self.position)
        for layer in self.layers:
            if self.training and np.random.uniform() < self.layerdrop:
                continue
            x = layer(x, self.mask)
        return self.norm(x)

    def score(self, h, target, neg):
        pos = (h * self.item(target)).sum(-1, keepdim=True)
        negs = torch.einsum("bld,bnd->bln", h, self.item(neg))
        return torch.cat([pos, negs], -1)


def main():
    np.random.seed(5)
    torch.manual_seed(5)
    items, length = 80, 12
    device = xm.xla_device()
    loader = DataLoader(Clicks(192, items, length, 16, seed=9), batch_size=16,
                        shuffle=True, drop_last=True)
    train_loader = pl.MpDeviceLoader(loader, device)
    model = SeqRec(items, length).to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)

    for epoch in range(3):
        model.train()
        for step, (seq, target, neg) in enumerate(train_loader):
            optimizer.zero_grad(set_to_none=False)
            logits = model.score(model(seq), target, neg)
            loss = F.cross_entropy(logits.flatten(0, 1),
                                   torch.zeros(target.numel(), dtype=torch.long, device=device))
            loss.backward()
            xm.optimizer_step(optimizer)
        log.info("epoch %d  loss %.4f", epoch, loss.item())


if __name__ == "__main__":
    main()
