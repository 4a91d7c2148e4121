import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_FEAT, LIST = 20, 16


class ListAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, mask):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        w = q @ k.transpose(-1, -2) / math.sqrt(d // self.heads)
        w = w.masked_fill(~mask[:, None, None, :], -1e9).softmax(-1)
        return self.out((w @ v).transpose(1, 2).reshape(b, n, d))


class ContextRanker(nn.Module):
    """Scores all documents of one query together."""

    def __init__(self, dim=32, heads=2, layers=1):
        super().__init__()
        self.inp = nn.Sequential(nn.Linear(N_FEAT, dim), nn.LayerNorm(dim), nn.GELU())
        self.attn = nn.ModuleList(ListAttention(dim, heads) for _ in range(layers))
        self.norm1 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)) for _ in range(layers)
        )
        self.norm2 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.score = nn.Linear(dim, 1)

    def forward(self, x, mask):
        h = self.inp(torch.sign(x) * torch.log1p(x.abs()))
        for attn, n1, ff, n2 in zip(self.attn, self.norm1, self.ff, self.norm2):
            h = h + attn(n1(h), mask)
            h = h + ff(n2(h))
        return self.score(h).squeeze(-1)


def listnet(scores, labels, mask):
    scores = scores.masked_fill(~mask, -1e9)
    gain = torch.where(mask, labels, torch.zeros_like(labels))
    target = gain / gain.sum(1, keepdim=True).clamp(min=1.0)
    per_query = -(target * F.log_softmax(scores, 1)).sum(1)
    judged = (gain.sum(1) > 0).float()
    return (per_query * judged).sum() / judged.sum().clamp(min=1.0)


@torch.no_grad()
def reciprocal_rank(scores, labels, mask):
    scores = scores.masked_fill(~mask, -1e9)
    best = (labels * mask).argmax(1, keepdim=True)
    rank = (scores > scores.gather(1, best)).sum(1) + 1
    return (1.0 / rank).sum()


def queries(n, batch=8, seed=0):
    r = np.random.default_rng(seed)
    for _ in range(n):
        size = r.integers(4, LIST + 1, (batch, 1))
        mask = np.arange(LIST)[None] < size
        x = r.lognormal(size=(batch, LIST, N_FEAT)).astype(np.float32)
        y = r.choice([0, 0, 0, 0, 0, 0, 0, 1, 2, 4], (batch, LIST)).astype(np.float32)
        yield torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(mask)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = ContextRanker().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.02)
    rr = torch.zeros((), device=device)
    for x, y, mask in queries(5):
        x, y, mask = x.to(device), y.to(device), mask.to(device)
        scores = model(x, mask)
        loss = listnet(scores, y, mask)
        opt.zero_grad()
        loss.backward()
        opt.step()
        rr += reciprocal_rank(scores, y, mask)
        torch_xla.sync()
    print("loss", loss.item(), "mrr", rr.item() / 40)


if __name__ == "__main__":
    main()
