"""Two-tower retrieval with in-batch negatives and a slow popularity bias per item."""
import os
import random

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

SEED = 1207
N_USERS, N_ITEMS, N_TAGS = 400, 240, 16
DIM, BATCH, STEPS = 24, 64, 24


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class Clicks(Dataset):
    """Zipf-distributed clicks; users carry a dense tag histogram."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        ranks = np.arange(1, N_ITEMS + 1)
        popularity = (1.0 / ranks) / (1.0 / ranks).sum()
        self.user = torch.from_numpy(rng.integers(0, N_USERS, n))
        self.item = torch.from_numpy(rng.choice(N_ITEMS, n, p=popularity))
        self.tags = torch.from_numpy(rng.random((N_USERS, N_TAGS), dtype=np.float32))

    def __len__(self):
        return self.user.numel()

    def __getitem__(self, i):
        u = self.user[i]
        return u, self.tags[u], self.item[i]


class UserTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(N_USERS, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM + N_TAGS, 48), nn.GELU(), nn.Linear(48, DIM))

    def forward(self, user, tags):
        return F.normalize(self.mlp(torch.cat([self.emb(user), tags], dim=-1)), dim=-1)


class ItemTower(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(N_ITEMS, DIM)
        self.proj = nn.Linear(DIM, DIM)

    def forward(self, item):
        return F.normalize(self.proj(self.emb(item)), dim=-1)


class PopularityBias(nn.Module):
    """Learned per-item bias. Scores use a slowly moving copy of it, so that a burst of
    clicks on one item does not move the ranking within a few batches."""

    def __init__(self, n_items, rate=0.1):
        super().__init__()
        self.rate = rate
        self.bias = nn.Embedding(n_items, 1)
        nn.init.zeros_(self.bias.weight)
        self.register_buffer("slow", torch.zeros(n_items))

    def forward(self, item):
        if self.training:
            self.slow = torch.lerp(self.slow, self.bias.weight.squeeze(-1), self.rate)
        return self.slow[item]


class Retrieval(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = UserTower()
        self.items = ItemTower()
        self.popularity = PopularityBias(N_ITEMS)
        self.log_temp = nn.Parameter(torch.tensor(2.0))

    def forward(self, user, tags, item):
        q = self.users(user, tags)
        k = self.items(item)
        scores = q @ k.t() * self.log_temp.exp()
        return scores + self.popularity(item).unsqueeze(0)


def in_batch_loss(scores, item):
    same = item.unsqueeze(0) == item.unsqueeze(1)
    eye = torch.eye(scores.size(0), dtype=torch.bool, device=scores.device)
    scores = scores.masked_fill(same & ~eye, -1e4)
    target = torch.arange(scores.size(0), device=scores.device)
    return F.cross_entropy(scores, target)


def forever(loader):
    while True:
        yield from loader


def main():
    set_seed(SEED)
    device = torch_xla.device()
    loader = DataLoader(Clicks(1500, SEED), batch_size=BATCH, shuffle=True, drop_last=True)
    model = Retrieval().to(device).train()
    decay, plain = [], []
    for name, p in model.named_parameters():
        (plain if p.ndim < 2 or "emb" in name else decay).append(p)
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 1e-2}, {"params": plain, "weight_decay": 0.0}], lr=3e-3
    )

    batches = forever(loader)
    running = torch.zeros((), device=device)
    for step in range(1, STEPS + 1):
        user, tags, item = (t.to(device) for t in next(batches))
        optimizer.zero_grad(set_to_none=True)
        scores = model(user, tags, item)
        loss = in_batch_loss(scores, item)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        running = running.mul(0.9).add(loss.detach(), alpha=0.1)
        torch_xla.sync()
        if step % 6 == 0:
            print(f"step {step:3d}  loss(ema) {running.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
