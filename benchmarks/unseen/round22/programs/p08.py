"""Session recommender: bag of clicked items -> dot product with candidate items."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm

N_ITEMS = 400
N_USERS = 256
NEGATIVES = 7


class Sessions(Dataset):
    def __init__(self, seed=0):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(N_USERS):
            taste = rng.randrange(0, N_ITEMS, 40)
            n = rng.randint(1, 12)
            clicks = [(taste + rng.randrange(40)) % N_ITEMS for _ in range(n)]
            target = (taste + rng.randrange(40)) % N_ITEMS
            self.rows.append((clicks, target))
        self.rng = rng

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        clicks, target = self.rows[i]
        negatives = [self.rng.randrange(N_ITEMS) for _ in range(NEGATIVES)]
        return clicks, [target] + negatives


def collate_sessions(samples):
    """Flattens the click lists: every click plus the row it belongs to."""
    values, rows = [], []
    for r, (clicks, _) in enumerate(samples):
        values.extend(clicks)
        rows.extend([r] * len(clicks))
    candidates = torch.tensor([c for _, c in samples])
    return torch.tensor(values), torch.tensor(rows), candidates


class TwoTower(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.items = nn.Embedding(N_ITEMS, dim)
        self.user = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        self.bias = nn.Embedding(N_ITEMS, 1)
        nn.init.normal_(self.items.weight, std=0.1)
        nn.init.zeros_(self.bias.weight)

    def pool(self, values, rows, n):
        emb = self.items(values)
        sums = torch.zeros(n, emb.shape[1], device=emb.device).index_add(0, rows, emb)
        ones = torch.ones(values.shape[0], 1, device=emb.device)
        counts = torch.zeros(n, 1, device=emb.device).index_add(0, rows, ones)
        return sums / counts.clamp(min=1)

    def forward(self, values, rows, candidates):
        u = self.user(self.pool(values, rows, candidates.shape[0]))
        scores = torch.einsum("bd,bkd->bk", u, self.items(candidates))
        return scores + self.bias(candidates).squeeze(-1)


def train_epoch(model, loader, opt, device):
    running = None
    for values, rows, candidates in loader:
        values, rows, candidates = values.to(device), rows.to(device), candidates.to(device)
        opt.zero_grad()
        scores = model(values, rows, candidates)
        target = torch.zeros(scores.shape[0], dtype=torch.long, device=device)
        loss = F.cross_entropy(scores, target)
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        cur = loss.item()
        running = cur if running is None else 0.9 * running + 0.1 * cur
    return running


def main(epochs=3, batch_size=32):
    torch.manual_seed(0)
    device = xm.xla_device()
    loader = DataLoader(Sessions(), batch_size=batch_size, shuffle=True, drop_last=True,
                        collate_fn=collate_sessions)
    model = TwoTower().to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for epoch in range(epochs):
        loss = train_epoch(model, loader, opt, device)
        print(f"epoch {epoch + 1}/{epochs}  loss(ema) {loss:.4f}")


if __name__ == "__main__":
    main()
