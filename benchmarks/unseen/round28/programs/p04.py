"""Two-tower retrieval with sampled softmax over the items of the batch."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    n_users: int = 200
    n_items: int = 150
    dim: int = 16
    batch: int = 32
    steps: int = 60
    log_every: int = 5
    lr: float = 5e-3
    tau: float = 0.1


class Interactions(torch.utils.data.Dataset):
    def __init__(self, cfg, n=4000):
        rng = np.random.default_rng(5)
        pop = 1.0 / np.arange(1, cfg.n_items + 1)
        pop /= pop.sum()
        self.user = rng.integers(0, cfg.n_users, n)
        self.item = rng.choice(cfg.n_items, n, p=pop)
        self.hour = rng.integers(0, 24, n)

    def __len__(self):
        return len(self.user)

    def __getitem__(self, i):
        return {"user": self.user[i], "item": self.item[i], "hour": self.hour[i]}


class UserTower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.n_users, cfg.dim)
        self.hour = nn.Embedding(24, cfg.dim)
        self.mlp = nn.Sequential(nn.Linear(2 * cfg.dim, 32), nn.ReLU(), nn.Linear(32, cfg.dim))

    def forward(self, user, hour):
        return F.normalize(self.mlp(torch.cat([self.emb(user), self.hour(hour)], -1)), dim=-1)


class ItemTower(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.n_items, cfg.dim)
        self.mlp = nn.Sequential(nn.Linear(cfg.dim, 32), nn.ReLU(), nn.Linear(32, cfg.dim))

    def forward(self, item):
        return F.normalize(self.mlp(self.emb(item)), dim=-1)


class Retrieval(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.user_tower = UserTower(cfg)
        self.item_tower = ItemTower(cfg)
        self.tau = cfg.tau

    def forward(self, batch):
        u = self.user_tower(batch["user"], batch["hour"])
        # popular items show up several times, score each of them once
        items, target = torch.unique(batch["item"], return_inverse=True)
        v = self.item_tower(items)
        logits = u @ v.t() / self.tau
        return F.cross_entropy(logits, target)


class History:
    def __init__(self):
        self.values = []

    def add(self, v):
        self.values.append(v.detach())

    def mean(self):
        return torch.stack(self.values).mean()


def cycle(loader):
    while True:
        yield from loader


def run(cfg):
    torch.manual_seed(0)
    device = xm.xla_device()
    loader = torch.utils.data.DataLoader(
        Interactions(cfg), batch_size=cfg.batch, shuffle=True, drop_last=True)
    model = Retrieval(cfg).to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=cfg.lr)
    history = History()
    batches = cycle(loader)
    for step in range(1, cfg.steps + 1):
        batch = {k: v.to(device) for k, v in next(batches).items()}
        opt.zero_grad()
        loss = model(batch)
        loss.backward()
        opt.step()
        xm.mark_step()
        history.add(loss)
        if step % cfg.log_every == 0:
            print(f"step {step} loss {loss.item():.4f} avg {history.mean().item():.4f}")


if __name__ == "__main__":
    run(Config())
