"""Next-token pretraining on product titles (small decoder, sinusoidal positions)."""
import argparse
import logging
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("titles")
PAD = 0


class Titles(Dataset):
    """Tokenised titles; lengths follow what the catalogue looks like."""

    def __init__(self, n, vocab, seed=3):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(n):
            length = min(40, max(6, int(rng.gauss(20, 7))))
            self.rows.append([rng.randrange(1, vocab) for _ in range(length)])

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    longest = max(len(r) for r in rows)
    width = 8 * math.ceil(longest / 8)
    ids = torch.full((len(rows), width), PAD, dtype=torch.long)
    for i, r in enumerate(rows):
        ids[i, : len(r)] = torch.tensor(r)
    return ids


def positions(n, dim, device):
    pos = torch.arange(n, device=device, dtype=torch.float32)[:, None]
    freq = torch.exp(torch.arange(0, dim, 2, device=device, dtype=torch.float32) * (-math.log(1e4) / dim))
    return torch.cat([torch.sin(pos * freq), torch.cos(pos * freq)], dim=-1)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        w = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        keep = torch.ones(t, t, device=x.device, dtype=torch.bool).tril()
        w = w.masked_fill(~keep, float("-inf")).softmax(-1)
        return self.out((w @ v).transpose(1, 2).reshape(b, t, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class Decoder(nn.Module):
    def __init__(self, vocab, dim=32, heads=4, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.emb(ids) + positions(ids.shape[1], self.emb.embedding_dim, ids.device)
        for blk in self.blocks:
            x = blk(x)
        return self.head(self.norm(x))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--vocab", type=int, default=300)
    p.add_argument("--batch", type=int, default=4)
    p.add_argument("--steps", type=int, default=8)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO)
    torch.manual_seed(0)

    device = torch_xla.device()
    model = Decoder(args.vocab).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.05)
    loader = DataLoader(Titles(args.batch * args.steps, args.vocab), args.batch, collate_fn=collate)
    for step, ids in enumerate(loader):
        ids = ids.to(device)
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        if step % 4 == 3:
            log.info("step %d loss %.4f", step, loss.item())


if __name__ == "__main__":
    main()
