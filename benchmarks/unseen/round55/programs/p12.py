"""Implicit-feedback recommender (NeuMF) trained with a truncated loss on noisy clicks."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

N_USERS, N_ITEMS = 120, 200


class Clicks(Dataset):
    """Positives carry some share of accidental clicks; negatives are redrawn every epoch."""

    def __init__(self, n=1600, noise=0.2, seed=0):
        self.rng = np.random.default_rng(seed)
        u = self.rng.normal(size=(N_USERS, 4))
        v = self.rng.normal(size=(N_ITEMS, 4))
        affinity = u @ v.T
        self.users = self.rng.integers(0, N_USERS, n)
        top = np.argsort(-affinity, axis=1)[:, :25]
        self.items = top[self.users, self.rng.integers(0, 25, n)]
        flip = self.rng.random(n) < noise
        self.items[flip] = self.rng.integers(0, N_ITEMS, flip.sum())
        self.resample()

    def resample(self):
        self.neg = self.rng.integers(0, N_ITEMS, len(self.users))

    def __len__(self):
        return 2 * len(self.users)

    def __getitem__(self, i):
        j, is_neg = divmod(i, 2)
        item = self.neg[j] if is_neg else self.items[j]
        return int(self.users[j]), int(item), 1.0 - is_neg


class NeuMF(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.gmf_u, self.gmf_i = nn.Embedding(N_USERS, dim), nn.Embedding(N_ITEMS, dim)
        self.mlp_u, self.mlp_i = nn.Embedding(N_USERS, dim), nn.Embedding(N_ITEMS, dim)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 8), nn.ReLU())
        self.out = nn.Linear(8 + dim, 1)
        for e in (self.gmf_u, self.gmf_i, self.mlp_u, self.mlp_i):
            nn.init.normal_(e.weight, std=0.05)

    def forward(self, u, i):
        g = self.gmf_u(u) * self.gmf_i(i)
        h = self.mlp(torch.cat([self.mlp_u(u), self.mlp_i(i)], dim=1))
        return self.out(torch.cat([g, h], dim=1)).squeeze(1)


class DropRate:
    def __init__(self, final=0.25, ramp=60, exponent=1.0):
        self.final, self.ramp, self.exponent = final, ramp, exponent

    def __call__(self, it):
        return min(self.final, self.final * (it / self.ramp) ** self.exponent)


def truncated_bce(logits, y, drop_rate):
    loss = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
    weighted = loss.detach() * y
    order = torch.argsort(weighted)
    num_remember = int((1.0 - drop_rate) * len(order))
    kept = order[:num_remember]
    return F.binary_cross_entropy_with_logits(logits[kept], y[kept])


@torch.no_grad()
def hit_rate(model, users, items, device, k=20):
    model.eval()
    cand = torch.arange(N_ITEMS, device=device)
    scores = model(users.repeat_interleave(N_ITEMS), cand.repeat(len(users))).view(len(users), N_ITEMS)
    top = scores.topk(k, dim=1).indices
    hits = (top == items[:, None]).any(1).float().mean()
    model.train()
    return hits.item()


def main():
    torch.manual_seed(11)
    device = torch_xla.device()
    data = Clicks(seed=11)
    loader = DataLoader(data, batch_size=128, shuffle=True, drop_last=True)
    model = NeuMF().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-4)
    drop = DropRate()
    probe_u = torch.from_numpy(data.users[:16]).to(device)
    probe_i = torch.from_numpy(data.items[:16]).to(device)

    it = 0
    for epoch in range(2):
        data.resample()
        running = torch.zeros((), device=device)
        for u, i, y in loader:
            u, i, y = u.to(device), i.to(device), y.float().to(device)
            opt.zero_grad()
            loss = truncated_bce(model(u, i), y, drop(it))
            loss.backward()
            opt.step()
            running += loss.detach()
            xm.mark_step()
            it += 1
        print(f"epoch {epoch} loss {(running / len(loader)).item():.4f} hr {hit_rate(model, probe_u, probe_i, device):.3f}")


if __name__ == "__main__":
    main()
