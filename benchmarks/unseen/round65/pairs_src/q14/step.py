"""FT-Transformer on a loan book that is streamed from CSV."""
import io

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

NUMERIC = ["age", "income", "months_employed", "n_open_loans", "utilisation"]
CATEGORICAL = {"purpose": 6, "region": 9}
TARGET = "defaulted"
STATS = {"age": (41, 12), "income": (3.1, 1.2), "months_employed": (60, 45), "n_open_loans": (2, 1.5), "utilisation": (0.4, 0.25)}


def write_book(n, seed=7):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({
        "age": rng.integers(19, 75, n),
        "income": rng.lognormal(1.0, 0.5, n).round(3),
        "months_employed": rng.integers(0, 240, n),
        "n_open_loans": rng.poisson(2, n),
        "utilisation": rng.beta(2, 3, n).round(3),
        "purpose": rng.integers(0, 6, n),
        "region": rng.integers(0, 9, n),
    })
    p = 1 / (1 + np.exp(-(2.0 * df.utilisation - 0.01 * df.months_employed + 0.2 * df.n_open_loans - 0.8)))
    df[TARGET] = (rng.uniform(size=n) < p).astype(int)
    df["months_employed"] = df["months_employed"].astype("Int64").mask(rng.uniform(size=n) < 0.012)
    buf = io.StringIO()
    df.to_csv(buf, index=False)
    buf.seek(0)
    return buf


class FeatureTokenizer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        n = len(NUMERIC)
        self.weight = nn.Parameter(torch.randn(n, dim) * 0.1)
        self.bias = nn.Parameter(torch.zeros(n, dim))
        self.missing = nn.Parameter(torch.randn(n, dim) * 0.02)
        self.cats = nn.ModuleDict({k: nn.Embedding(v, dim) for k, v in CATEGORICAL.items()})
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.register_buffer("mean", torch.tensor([STATS[c][0] for c in NUMERIC], dtype=torch.float32))
        self.register_buffer("std", torch.tensor([STATS[c][1] for c in NUMERIC], dtype=torch.float32))

    def forward(self, batch):
        x = torch.stack([batch[c].float() for c in NUMERIC], dim=1)
        absent = torch.isnan(x)
        x = ((x - self.mean) / self.std).masked_fill(absent, 0.0)
        num = x[..., None] * self.weight + self.bias + absent[..., None].float() * self.missing
        cat = torch.stack([emb(batch[k]) for k, emb in self.cats.items()], dim=1)
        return torch.cat([self.cls.expand(x.shape[0], -1, -1), num, cat], dim=1)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.norm2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-2, -1)) * (d // self.heads) ** -0.5
        y = (att.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(y)
        a, g = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(a * F.relu(g))


class FTTransformer(nn.Module):
    def __init__(self, dim=16, heads=2, depth=2):
        super().__init__()
        self.tokens = FeatureTokenizer(dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 1)

    def forward(self, batch):
        x = self.tokens(batch)
        for blk in self.blocks:
            x = blk(x)
        return self.head(F.relu(self.norm(x[:, 0]))).squeeze(-1)


def stream(buf, rows):
    for chunk in pd.read_csv(buf, chunksize=rows):
        if len(chunk) < rows:
            continue
        yield {c: torch.tensor(chunk[c].to_numpy()) for c in chunk.columns}


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = FTTransformer().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    seen = torch.zeros((), device=device)
    hits = torch.zeros((), device=device)
    torch_xla.sync()

    for step, cpu_batch in enumerate(stream(write_book(400), 32)):
        batch = {k: v.to(device) for k, v in cpu_batch.items()}
        y = batch.pop(TARGET).float()
        logits = model(batch)
        loss = F.binary_cross_entropy_with_logits(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen += y.numel()
        hits += ((logits > 0) == (y > 0.5)).sum()
        torch_xla.sync()
        print(step, f"loss {loss.item():.4f} acc {hits.item() / seen.item():.3f}")


if __name__ == "__main__":
    main()
