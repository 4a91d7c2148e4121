"""Dual-encoder passage retrieval with in-batch negatives."""
import math
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCAB, DIM, HEADS, BATCH, QLEN, PLEN = 128, 24, 2, 6, 6, 12


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, DIM, padding_idx=0), nn.Embedding(PLEN, DIM)
        self.ln0, self.ln1 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

    def pool(self, x, mask):
        return x[:, 0]

    def forward(self, ids):
        b, t = ids.shape
        mask = ids.ne(0)
        x = self.ln0(self.tok(ids) + self.pos.weight[:t])
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        s = (q @ k.transpose(-1, -2)) / math.sqrt(DIM // HEADS)
        s = s.masked_fill(~mask[:, None, None], -1e4).softmax(-1)
        x = self.ln1(x + self.out((s @ v).transpose(1, 2).reshape(b, t, DIM)))
        return F.normalize(self.pool(x, mask), dim=-1)


def build_optimizer(model, lr=5e-4, weight_decay=0.05):
    return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=weight_decay, foreach=False)


def make_ids(rng, length):
    ids = rng.integers(3, VOCAB, (BATCH, length))
    n = rng.integers(length // 2, length + 1, BATCH)
    ids[np.arange(length)[None] >= n[:, None]] = 0
    ids[:, 0] = 2
    return torch.from_numpy(ids)


def main():
    torch.manual_seed(9)
    device = torch_xla.device()
    model = Encoder().to(device)
    opt = build_optimizer(model)
    rng = np.random.default_rng(12)
    torch_xla.sync()
    for step in range(6):
        query, passage = make_ids(rng, QLEN).to(device), make_ids(rng, PLEN).to(device)
        opt.zero_grad()
        scores = model(query) @ model(passage).t() / 0.05
        target = torch.arange(BATCH, device=device)
        loss = F.cross_entropy(scores, target)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, round(loss.item(), 6), flush=True)


if __name__ == "__main__":
    main()
