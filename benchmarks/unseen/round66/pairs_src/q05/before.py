"""Ranking model for marketplace listings: DCN-v2 style crosses, click and booking heads."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CARDINALITIES = {"listing": 200, "host": 80, "market": 24, "device": 4}
N_DENSE, DIM = 7, 8


class LowRankCross(nn.Module):
    def __init__(self, width, rank):
        super().__init__()
        self.u = nn.Linear(width, rank, bias=False)
        self.v = nn.Linear(rank, width)

    def forward(self, x0, x):
        return x0 * self.v(self.u(x)) + x


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleDict({k: nn.Embedding(n, DIM) for k, n in CARDINALITIES.items()})
        width = DIM * len(CARDINALITIES) + N_DENSE
        self.crosses = nn.ModuleList([LowRankCross(width, 6) for _ in range(2)])
        self.deep = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.heads = nn.ModuleDict({"click": nn.Linear(width + 16, 1), "book": nn.Linear(width + 16, 1)})

    def dense_features(self, d):
        return torch.log1p(d.clamp(min=0))

    def forward(self, ids, dense):
        cols = [table(ids[:, j]) for j, table in enumerate(self.tables.values())]
        x0 = torch.cat(cols + [self.dense_features(dense)], dim=1)
        x = x0
        for cross in self.crosses:
            x = cross(x0, x)
        h = torch.cat([x, self.deep(x0)], dim=1)
        return {k: head(h).squeeze(1) for k, head in self.heads.items()}


def objective(out, click, book):
    l_click = F.binary_cross_entropy_with_logits(out["click"], click)
    l_book = F.binary_cross_entropy_with_logits(out["book"], book, reduction="none")
    return l_click + (l_book * click).sum() / click.sum().clamp(min=1.0)


def make_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.99), weight_decay=1e-2)


def sessions(n, rng, batch=96):
    for _ in range(n):
        ids = np.stack([rng.integers(0, c, batch) for c in CARDINALITIES.values()], 1)
        dense = rng.standard_t(3, (batch, N_DENSE)).astype(np.float32) * 4
        click = (rng.random(batch) < 0.3).astype(np.float32)
        book = click * (rng.random(batch) < 0.2)
        yield [torch.from_numpy(np.ascontiguousarray(a, dtype=a.dtype)) for a in (ids, dense, click, book.astype(np.float32))]


def main(steps=4):
    torch.manual_seed(11)
    dev = xm.xla_device()
    model = Ranker().to(dev)
    opt = make_optimizer(model)
    for i, batch in enumerate(sessions(steps, np.random.default_rng(2))):
        ids, dense, click, book = [t.to(dev) for t in batch]
        opt.zero_grad()
        loss = objective(model(ids, dense), click, book)
        loss.backward()
        opt.step()
        torch_xla.sync()
        print(i, f"{loss.item():.5f}")


if __name__ == "__main__":
    main()
