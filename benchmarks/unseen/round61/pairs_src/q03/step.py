"""Offline evaluation of the two-tower retriever, catalogue sharded over the replicas.

Every replica scores all queries against its slice of the catalogue; the partial ranks and
the shortlists are merged on the host.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.runtime as xr

VOCAB_QUERY, VOCAB_ITEM, VOCAB_BRAND = 200, 120, 16
DIM, HEADS, LENGTH = 16, 2, 6
BATCH = 8
TOPK = 5


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-2, -1)) * (d // self.heads) ** -0.5
        att = att.masked_fill(~mask[:, None, None, :], -1e4).softmax(dim=-1)
        x = x + self.proj((att @ v).transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.norm2(x))


class QueryTower(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.embed = nn.Embedding(VOCAB_QUERY, dim, padding_idx=0)
        self.pos = nn.Parameter(torch.randn(1, LENGTH, dim) * 0.02)
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(2)])
        self.out = nn.Linear(dim, dim)

    def forward(self, tokens):
        mask = tokens != 0
        x = self.embed(tokens) + self.pos
        for block in self.blocks:
            x = block(x, mask)
        w = mask.unsqueeze(-1).float()
        pooled = (x * w).sum(1) / w.sum(1).clamp(min=1.0)
        return F.normalize(self.out(pooled), dim=-1)


class ItemTower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.item = nn.Embedding(VOCAB_ITEM, dim)
        self.brand = nn.Embedding(VOCAB_BRAND, dim)
        self.net = nn.Sequential(nn.Linear(2 * dim + 1, 2 * dim), nn.GELU(), nn.LayerNorm(2 * dim),
                                 nn.Linear(2 * dim, dim))

    def forward(self, item, brand, price):
        x = torch.cat([self.item(item), self.brand(brand), price.unsqueeze(-1)], dim=-1)
        return F.normalize(self.net(x), dim=-1)


class TwoTower(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.query = QueryTower(dim, heads)
        self.items = ItemTower(dim)
        self.log_scale = nn.Parameter(torch.tensor(np.log(1 / 0.07), dtype=torch.float32))


class Catalogue:
    """Item features, as the feature store exports them."""

    def __init__(self, seed=5):
        rng = np.random.default_rng(seed)
        self.item = np.arange(VOCAB_ITEM)
        self.brand = self.item % VOCAB_BRAND
        self.price = rng.normal(size=VOCAB_ITEM).astype(np.float32)
        self.logq = (np.log1p(self.item) - 4.0).astype(np.float32)

    def rows(self, index):
        cols = (self.item, self.brand, self.price, self.logq)
        return [torch.from_numpy(np.ascontiguousarray(c[index])) for c in cols]


def query_batches(steps, seed=100):
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        tokens = np.zeros((BATCH, LENGTH), dtype=np.int64)
        for row, n in zip(tokens, rng.integers(2, LENGTH + 1, BATCH)):
            row[:n] = rng.integers(1, VOCAB_QUERY, n)
        yield torch.from_numpy(tokens), rng.integers(0, VOCAB_ITEM, BATCH)


def score(model, q, v, logq):
    return q @ v.t() * model.log_scale.exp() - logq


def shard_metrics(scores, ids, positive, target, k):
    """Contribution of one shard: better-ranked items, log-sum-exp, shortlist."""
    other = ids[None, :] != target[:, None]
    ahead = ((scores > positive) & other).sum(dim=1)
    mass = torch.logsumexp(scores, dim=1)
    top, index = scores.topk(k, dim=1)
    shortlist = ids[index]
    recall = (shortlist == target[:, None]).any(dim=1)
    return ahead, mass, top, shortlist, recall


def evaluate(index):
    torch.manual_seed(3)
    device = torch_xla.device()
    rank, world = xr.global_ordinal(), xr.world_size()
    model = TwoTower(DIM, HEADS).to(device).eval()
    catalogue = Catalogue()
    shard = VOCAB_ITEM // world
    start = rank * shard
    item, brand, price, logq = [t.to(device) for t in catalogue.rows(slice(start, start + shard))]
    hits = torch.zeros((), device=device)
    ahead_total, merged = [], []
    torch_xla.sync()
    with torch.no_grad():
        for tokens, clicked in query_batches(4):
            tokens, target = tokens.to(device), torch.from_numpy(clicked).to(device)
            positive_row = [t.to(device) for t in catalogue.rows(clicked)]
            q = model.query(tokens)
            v = model.items(item, brand, price)
            u = model.items(*positive_row[:3])
            positive = (q * u).sum(-1, keepdim=True) * model.log_scale.exp() - positive_row[3][:, None]
            ids = torch.arange(shard, device=device) + start
            out = shard_metrics(score(model, q, v, logq), ids, positive, target, TOPK)
            ahead, mass, top, shortlist, recall = out
            hits += recall.float().sum()
            torch_xla.sync()
            ahead_total.append(ahead.cpu().numpy())
            merged.append((top.cpu().numpy(), shortlist.cpu().numpy(), mass.cpu().numpy()))
    print(f"replica {rank}/{world} hits@{TOPK} {hits.item():.0f} "
          f"ahead {np.concatenate(ahead_total).mean():.2f} {merged[0][1][0]}", flush=True)


if __name__ == "__main__":
    torch_xla.launch(evaluate)
