"""Two-tower recommender, sampled softmax over the items of the batch.

Item side features are heavy (title tokens, category, price), so each item is encoded once per
batch, however often it was clicked.
"""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    n_users: int = 500
    n_items: int = 400
    n_categories: int = 20
    title_len: int = 6
    vocab: int = 300
    dim: int = 16
    batch_size: int = 64
    steps: int = 40
    lr: float = 2e-3
    temperature: float = 0.1
    seed: int = 12


class Catalogue:
    """Static item features, kept in host memory."""

    def __init__(self, cfg, rng):
        self.title = rng.integers(1, cfg.vocab, size=(cfg.n_items, cfg.title_len))
        self.category = rng.integers(0, cfg.n_categories, size=cfg.n_items)
        self.price = rng.lognormal(3.0, 0.7, size=cfg.n_items).astype(np.float32)
        # popularity follows a power law, as in any click log
        p = 1.0 / np.arange(1, cfg.n_items + 1) ** 0.9
        self.popularity = p / p.sum()

    def features(self, ids):
        price = (np.log1p(self.price[ids]) - 3.0) / 0.7
        return {
            "title": torch.from_numpy(self.title[ids]),
            "category": torch.from_numpy(self.category[ids]),
            "price": torch.from_numpy(price.astype(np.float32))[:, None],
            "log_q": torch.from_numpy(np.log(self.popularity[ids]).astype(np.float32)),
        }


class ClickLog:
    def __init__(self, cfg, catalogue, rng, n_events=20000):
        self.users = rng.integers(0, cfg.n_users, size=n_events)
        self.items = rng.choice(cfg.n_items, size=n_events, p=catalogue.popularity)
        self.hour = rng.integers(0, 24, size=n_events)
        self.cfg, self.rng = cfg, rng

    def batches(self):
        bs = self.cfg.batch_size
        while True:
            order = self.rng.permutation(len(self.users))
            for lo in range(0, len(order) - bs + 1, bs):
                idx = order[lo : lo + bs]
                yield self.users[idx], self.items[idx], self.hour[idx]


class UserTower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.user = nn.Embedding(cfg.n_users, cfg.dim)
        self.hour = nn.Embedding(24, cfg.dim)
        self.mlp = nn.Sequential(
            nn.Linear(2 * cfg.dim, 32), nn.ReLU(), nn.Linear(32, cfg.dim)
        )

    def forward(self, user, hour):
        h = torch.cat([self.user(user), self.hour(hour)], dim=-1)
        return F.normalize(self.mlp(h), dim=-1)


class ItemTower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.token = nn.Embedding(cfg.vocab, cfg.dim)
        self.category = nn.Embedding(cfg.n_categories, cfg.dim)
        self.mlp = nn.Sequential(
            nn.Linear(2 * cfg.dim + 1, 32), nn.ReLU(), nn.Linear(32, cfg.dim)
        )

    def forward(self, title, category, price):
        h = torch.cat([self.token(title).mean(1), self.category(category), price], dim=-1)
        return F.normalize(self.mlp(h), dim=-1)


def collate(users, items, hours, catalogue, device):
    candidates, target = np.unique(items, return_inverse=True)
    feats = {k: v.to(device) for k, v in catalogue.features(candidates).items()}
    return (
        torch.from_numpy(users).to(device),
        torch.from_numpy(hours).to(device),
        feats,
        torch.from_numpy(target).to(device),
    )


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    device = torch_xla.device()

    catalogue = Catalogue(cfg, rng)
    log = ClickLog(cfg, catalogue, rng)
    user_tower = UserTower(cfg).to(device)
    item_tower = ItemTower(cfg).to(device)
    params = list(user_tower.parameters()) + list(item_tower.parameters())
    optimizer = torch.optim.AdamW(params, lr=cfg.lr, weight_decay=1e-4)
    running = torch.zeros((), device=device)
    xm.mark_step()

    for step, (users, items, hours) in enumerate(log.batches()):
        if step == cfg.steps:
            break
        user, hour, feats, target = collate(users, items, hours, catalogue, device)
        u = user_tower(user, hour)
        v = item_tower(feats["title"], feats["category"], feats["price"])
        logits = u @ v.t() / cfg.temperature - feats["log_q"]
        loss = F.cross_entropy(logits, target)

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running = 0.9 * running + 0.1 * loss.detach()
        xm.mark_step()

        if (step + 1) % 10 == 0:
            print(f"step {step + 1:3d}  loss (smoothed) {running.item():.4f}")


if __name__ == "__main__":
    main()
