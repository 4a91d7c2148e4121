"""Click-through-rate ranking model trained from an exported event log.

Rows arrive as decoded JSON objects, are grouped in batches of a fixed size and
fed to a small DCN-style ranker (embeddings + dense features + cross layers).
"""
import json
import random
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

DENSE = ("price", "dwell_s", "age_days", "rating", "discount")
SPARSE = {"user": 500, "item": 300, "category": 24, "country": 16}


@dataclass
class RankerConfig:
    emb_dim: int = 8
    cross_layers: int = 2
    hidden: int = 48
    batch_size: int = 24
    steps: int = 96
    lr: float = 2e-3
    log_every: int = 20
    seed: int = 7
    stats: dict = field(default_factory=lambda: {
        "price": (20.0, 12.0), "dwell_s": (30.0, 25.0), "age_days": (90.0, 60.0),
        "rating": (3.6, 0.9), "discount": (5.0, 8.0)})


def event_log(seed):
    """Endless stream of JSON lines such as the tracking service exports."""
    rng = random.Random(seed)

    def number(value, digits, p_round):
        return int(value) if rng.random() < p_round else round(value, digits) + 0.01

    while True:
        row = {k: rng.randrange(n) for k, n in SPARSE.items()}
        row["price"] = number(rng.uniform(1, 60), 2, 0.96)
        row["dwell_s"] = number(rng.expovariate(1 / 30), 1, 0.975)
        row["age_days"] = number(rng.uniform(0, 200), 1, 0.985)
        row["rating"] = number(rng.uniform(1, 5), 1, 0.95)
        row["discount"] = number(max(0.0, rng.gauss(3, 8)), 2, 0.97)
        logit = 0.03 * row["dwell_s"] + 0.5 * (row["rating"] - 3.5) - 0.02 * row["price"]
        row["click"] = int(rng.random() < 1 / (1 + 2.718281828 ** -logit))
        yield json.dumps(row)


class EventReader:
    """Groups decoded rows into dictionaries of column tensors."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.lines = event_log(cfg.seed)

    def column(self, rows, name):
        return torch.as_tensor([row[name] for row in rows])

    def __iter__(self):
        while True:
            rows = [json.loads(next(self.lines)) for _ in range(self.cfg.batch_size)]
            batch = {name: self.column(rows, name) for name in SPARSE}
            batch.update({name: self.column(rows, name) for name in DENSE})
            batch["click"] = torch.tensor([float(r["click"]) for r in rows])
            yield batch


class CrossLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.w = nn.Linear(dim, dim)

    def forward(self, x0, x):
        return x0 * self.w(x) + x


class Ranker(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.stats = cfg.stats
        self.tables = nn.ModuleDict(
            {k: nn.Embedding(n, cfg.emb_dim) for k, n in SPARSE.items()})
        dim = cfg.emb_dim * len(SPARSE) + len(DENSE)
        self.cross = nn.ModuleList(CrossLayer(dim) for _ in range(cfg.cross_layers))
        self.deep = nn.Sequential(
            nn.Linear(dim, cfg.hidden), nn.ReLU(), nn.Linear(cfg.hidden, cfg.hidden), nn.ReLU())
        self.head = nn.Linear(dim + cfg.hidden, 1)

    def dense(self, batch):
        cols = []
        for name in DENSE:
            mean, std = self.stats[name]
            cols.append((batch[name] - mean) / std)
        return torch.stack(cols, dim=-1).clamp(-4.0, 4.0)

    def forward(self, batch):
        embs = [table(batch[name]) for name, table in self.tables.items()]
        x0 = torch.cat(embs + [self.dense(batch)], dim=-1)
        x = x0
        for layer in self.cross:
            x = layer(x0, x)
        return self.head(torch.cat([x, self.deep(x0)], dim=-1)).squeeze(-1)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        torch.manual_seed(cfg.seed)
        self.model = Ranker(cfg).to(self.device)
        self.opt = torch.optim.Adagrad(self.model.parameters(), lr=cfg.lr * 10)

    def train_step(self, batch):
        batch = {k: v.to(self.device) for k, v in batch.items()}
        self.opt.zero_grad()
        logits = self.model(batch)
        loss = F.binary_cross_entropy_with_logits(logits, batch["click"])
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss

    def fit(self):
        for step, batch in enumerate(EventReader(self.cfg)):
            if step == self.cfg.steps:
                break
            loss = self.train_step(batch)
            if step % self.cfg.log_every == 0:
                print(f"step {step:4d}  logloss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    Trainer(RankerConfig()).fit()
