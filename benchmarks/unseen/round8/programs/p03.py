"""Review rating predictor: two-tower model regressing on star ratings read from JSON lines."""
import io
import json
import logging
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("ratings")


@dataclass
class Config:
    seed: int = 21
    users: int = 40
    items: int = 60
    dim: int = 8
    history: int = 5
    batch_size: int = 6
    epochs: int = 2
    rows: int = 96
    lr: float = 5e-3


def fake_export(cfg):
    """Stand-in for the nightly export: one JSON object a line."""
    rng = random.Random(cfg.seed)
    out = io.StringIO()
    for _ in range(cfg.rows):
        stars = rng.choice([1, 2, 3, 4, 5, 4, 5, 3, 3.5, 4.5])
        out.write(json.dumps({"user": rng.randrange(cfg.users), "item": rng.randrange(cfg.items),
                              "history": [rng.randrange(cfg.items) for _ in range(cfg.history)],
                              "stars": stars}) + "\n")
    out.seek(0)
    return out


class Ratings(Dataset):
    def __init__(self, handle):
        self.rows = [json.loads(line) for line in handle]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    return {
        "user": torch.tensor([r["user"] for r in rows]),
        "item": torch.tensor([r["item"] for r in rows]),
        "history": torch.tensor([r["history"] for r in rows]),
        "stars": torch.tensor([r["stars"] for r in rows]),
    }


class TwoTower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.user = nn.Embedding(cfg.users, cfg.dim)
        self.item = nn.Embedding(cfg.items, cfg.dim)
        self.left = nn.Sequential(nn.Linear(2 * cfg.dim, 16), nn.ReLU(), nn.Linear(16, cfg.dim))
        self.right = nn.Linear(cfg.dim, cfg.dim)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, user, item, history):
        past = self.item(history).mean(1)
        u = self.left(torch.cat([self.user(user), past], -1))
        v = self.right(self.item(item))
        return (u * v).sum(-1) + self.bias


class RunningMean:
    def __init__(self):
        self.values = []

    def add(self, v):
        self.values.append(v)

    def result(self):
        return sum(v.item() for v in self.values) / max(len(self.values), 1)


def train_epoch(model, loader, opt, device):
    mean = RunningMean()
    for batch in loader:
        batch = {k: v.to(device) for k, v in batch.items()}
        pred = model(batch["user"], batch["item"], batch["history"])
        target = (batch["stars"] - 3) / 2
        loss = F.mse_loss(pred, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        mean.add(loss.detach())
    return mean.result()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = xm.xla_device()
    data = Ratings(fake_export(cfg))
    loader = DataLoader(data, batch_size=cfg.batch_size, shuffle=True, collate_fn=collate, drop_last=True)
    model = TwoTower(cfg).to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=cfg.lr)
    for epoch in range(cfg.epochs):
        log.info("epoch %d mse %.4f", epoch, train_epoch(model, loader, opt, device))


if __name__ == "__main__":
    main()
