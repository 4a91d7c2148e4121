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

    def _split(self, e, w):
        return torch.matmul(e.unsqueeze(1), w)

    def forward(self, e):
        b, f, d = e.shape
        shortcut = self.res(e)
        v = self._split(e, self.wv)
        k = self._split(e, self.wk)
        q = self._split(e, self.wq) * self.hd ** -0.5
        att = F.softmax(q @ k.transpose(-2, -1), dim=-1)
        out = (att @ v).permute(0, 2, 1, 3).reshape(b, f, d)
        return F.relu(shortcut + out)


class CrossLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, dim) / math.sqrt(dim))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, x0, x):
        return torch.addcmul(x, x0, F.linear(x, self.weight, self.bias))


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
        numeric = (1 + dense).log()
        ids = cats.unbind(1)
        e = torch.cat([t(i).unsqueeze(1) for t, i in zip(self.tables, ids)], dim=1)
        x0 = torch.cat([self.attention(e).reshape(e.shape[0], -1), numeric], dim=1)
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
        opt.zero_grad()
        penalty = 0.0
        for table in model.tables:
            penalty = penalty + emb_l2 * (table.weight * table.weight).sum()
        logits = model(cats, dense)
        nll = (F.softplus(logits) - y * logits).mean()
        loss = penalty + nll
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(step, f"{loss.item():.6f}")


if __name__ == "__main__":
    main()
