# two-tower retrieval, in-batch softmax with logQ correction
import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, TensorDataset

N_USERS, N_ITEMS, N_GENRES = 300, 120, 6


def interactions(n=2400, seed=0):
    rng = np.random.default_rng(seed)
    pop = rng.zipf(1.4, size=20 * n) - 1
    items = pop[pop < N_ITEMS][:n]
    df = pd.DataFrame({"item": items})
    df["user"] = rng.integers(0, N_USERS, len(df))
    genre = rng.integers(0, N_GENRES, N_ITEMS)
    df["genre"] = genre[df["item"]]
    df["age"] = rng.normal(size=len(df)).astype("float32") + 0.2 * df["genre"].to_numpy("float32")
    return df, genre


class UserTower(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.emb = nn.Embedding(N_USERS, d)
        self.mlp = nn.Sequential(nn.Linear(d + 1, 32), nn.ReLU(), nn.Linear(32, d))

    def forward(self, user, age):
        return F.normalize(self.mlp(torch.cat([self.emb(user), age[:, None]], 1)), dim=-1)


class ItemTower(nn.Module):
    def __init__(self, d, genre):
        super().__init__()
        self.emb = nn.Embedding(N_ITEMS, d)
        self.genre_emb = nn.Embedding(N_GENRES, 4)
        self.register_buffer("genre", torch.from_numpy(genre))
        self.mlp = nn.Sequential(nn.Linear(d + 4, 32), nn.ReLU(), nn.Linear(32, d))

    def forward(self, item):
        h = torch.cat([self.emb(item), self.genre_emb(self.genre[item])], 1)
        return F.normalize(self.mlp(h), dim=-1)


class Retrieval(nn.Module):
    def __init__(self, genre, log_q, d=16, tau=0.1):
        super().__init__()
        self.users, self.items = UserTower(d), ItemTower(d, genre)
        self.register_buffer("log_q", log_q)
        self.tau = tau

    def forward(self, user, age, item):
        # popular items show up several times in a batch: score each of them once
        cand, target = torch.unique(item, return_inverse=True)
        u = self.users(user, age)
        v = self.items(cand)
        logits = u @ v.t() / self.tau - self.log_q[cand]
        return F.cross_entropy(logits, target)


def main():
    torch.manual_seed(0)
    df, genre = interactions()
    counts = np.bincount(df["item"], minlength=N_ITEMS) + 1.0
    log_q = torch.from_numpy(np.log(counts / counts.sum()).astype(np.float32))
    ds = TensorDataset(
        torch.from_numpy(df["user"].to_numpy(np.int64)),
        torch.from_numpy(df["age"].to_numpy(np.float32)),
        torch.from_numpy(df["item"].to_numpy(np.int64)),
    )
    loader = DataLoader(ds, batch_size=64, shuffle=True, drop_last=True)

    device = xm.xla_device()
    model = Retrieval(genre, log_q).to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    device_loader = pl.MpDeviceLoader(loader, device)

    for epoch in range(2):
        total, n = torch.zeros((), device=device), 0
        for user, age, item in device_loader:
            opt.zero_grad()
            loss = model(user, age, item)
            loss.backward()
            xm.optimizer_step(opt)
            total += loss.detach()
            n += 1
        print(f"epoch {epoch}: loss {total.item() / n:.4f}")


if __name__ == "__main__":
    main()
