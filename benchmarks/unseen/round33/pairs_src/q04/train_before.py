"""Click-through-rate model: field embeddings, one field-attention layer, two cross layers."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

VOCABS = (40, 12, 25, 7, 60)
N_DENSE = 4
DIM = 8
HEADS = 2


class FieldAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.wq = nn.Parameter(torch.empty(heads, dim, self.hd))
        self.wk = nn.Parameter(torch.empty(heads, dim, self.hd))
        self.wv = nn.Parameter(torch.empty(heads, dim, self.hd))
        self.res = nn.Linear(dim, dim, bias=False)
        for w in (self.wq, self.wk, self.wv):
            nn.init.xavier_uniform_(w)

    def forward(self, e):
        q = torch.einsum("bfd,hde->bhfe", e, self.wq)
        k = torch.einsum("bfd,hde->bhfe", e, self.wk)
        v = torch.einsum("bfd,hde->bhfe", e, self.wv)
        scores = torch.einsum("bhfe,bhge->bhfg", q, k) / math.sqrt(self.hd)
        att = torch.softmax(scores, dim=-1)
        out = torch.einsum("bhfg,bhge->bfhe", att, v).flatten(2)
        return F.relu(out + self.res(e))


class CrossLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, dim) / math.sqrt(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x0, x):
        return x0 * (torch.einsum("oi,bi->bo", self.weight, x) + self.bias) + x


class CtrModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(v, DIM) for v in VOCABS])
        self.attention = FieldAttention(DIM, HEADS)
        width = DIM * len(VOCABS) + N_DENSE
        self.cross = nn.ModuleList([CrossLayer(width) for _ in range(2)])
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 1)

    def forward(self, cats, dense):
        e = torch.stack([table(cats[:, i]) for i, table in enumerate(self.tables)], dim=1)
        e = self.attention(e)
        x0 = torch.cat([e.flatten(1), torch.log1p(dense)], dim=1)
        x = x0
        for layer in self.cross:
            x = layer(x0, x)
        return self.out(self.norm(x)).squeeze(-1)


def impressions(rng, n):
    cats = np.stack([rng.zipf(1.5, n) % v for v in VOCABS], axis=1)
    dense = rng.exponential(2.0, size=(n, N_DENSE)).astype(np.float32)
    p = 1 / (1 + np.exp(1.5 - 0.3 * (cats[:, 0] % 5) - 0.2 * dense[:, 1]))
    y = (rng.uniform(size=n) < p).astype(np.float32)
    return torch.from_numpy(cats), torch.from_numpy(dense), torch.from_numpy(y)


def main(steps=6, bs=32, emb_l2=1e-4):
    torch.manual_seed(5)
    rng = np.random.default_rng(5)
    device = torch_xla.device()
    model = CtrModel().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.02, initial_accumulator_value=0.1)
    for step in range(steps):
        cats, dense, y = (t.to(device) for t in impressions(rng, bs))
        logits = model(cats, dense)
        bce = F.binary_cross_entropy_with_logits(logits, y)
        reg = sum(table.weight.pow(2).sum() for table in model.tables)
        loss = bce + emb_l2 * reg
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, f"{loss.item():.6f}")


if __name__ == "__main__":
    main()
