"""Two-tower retrieval on implicit feedback with a shared, de-duplicated candidate pool."""
import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def interactions(n_users=120, n_items=400, n=5000, seed=0):
    rng = np.random.default_rng(seed)
    pop = 1.0 / (np.arange(n_items) + 5)
    taste = rng.integers(0, 4, n_users)
    u = rng.integers(0, n_users, n)
    i = rng.choice(n_items, n, p=pop / pop.sum())
    i = i - i % 4 + taste[u]
    df = pd.DataFrame({"user": u, "item": np.minimum(i, n_items - 1)}).drop_duplicates()
    counts = np.bincount(df.item, minlength=n_items)
    return df.sample(frac=1.0, random_state=seed), counts


class Tower(nn.Module):
    def __init__(self, n, dim):
        super().__init__()
        self.emb = nn.Embedding(n, dim)
        self.proj = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    def forward(self, ids):
        return F.normalize(self.proj(self.emb(ids)), dim=-1)


class TwoTower(nn.Module):
    def __init__(self, n_users, n_items, dim=16, temperature=0.15):
        super().__init__()
        self.user, self.item = Tower(n_users, dim), Tower(n_items, dim)
        self.temperature = temperature

    def forward(self, users, pos, sampled, log_q):
        pool, where = torch.unique(torch.cat([pos, sampled]), return_inverse=True)
        scores = self.user(users) @ self.item(pool).t() / self.temperature
        scores = scores - log_q[pool]
        return F.cross_entropy(scores, where[: pos.shape[0]])


class Trainer:
    def __init__(self, frame, counts, batch_size=32, n_sampled=64, lr=5e-2):
        self.frame, self.batch_size, self.n_sampled = frame, batch_size, n_sampled
        self.device = torch_xla.device()
        self.n_items = len(counts)
        q = (counts + 1) ** 0.75
        self.q = torch.tensor(q / q.sum(), dtype=torch.float32)
        self.log_q = self.q.log().to(self.device)
        self.model = TwoTower(int(frame.user.max()) + 1, self.n_items).to(self.device)
        self.opt = torch.optim.Adagrad(self.model.parameters(), lr=lr, initial_accumulator_value=0.1)
        self.losses = []

    def batches(self):
        users = torch.from_numpy(self.frame.user.to_numpy(copy=True))
        items = torch.from_numpy(self.frame.item.to_numpy(copy=True))
        for idx in torch.randperm(len(users)).split(self.batch_size):
            if len(idx) == self.batch_size:
                yield users[idx], items[idx]

    def step(self, users, pos):
        sampled = torch.multinomial(self.q, self.n_sampled, replacement=True)
        users, pos, sampled = (t.to(self.device) for t in (users, pos, sampled))
        loss = self.model(users, pos, sampled, self.log_q)
        self.opt.zero_grad()
        loss.backward()
        xm.optimizer_step(self.opt, barrier=True)
        return loss.detach()

    def run(self, max_steps=50, log_every=10):
        for n, (users, pos) in enumerate(self.batches(), 1):
            self.losses.append(self.step(users, pos))
            if n % log_every == 0:
                recent = np.mean([l.item() for l in self.losses[-log_every:]])
                xm.master_print(f"step {n:4d}  loss {recent:.4f}")
            if n == max_steps:
                break


def main():
    torch.manual_seed(2)
    frame, counts = interactions()
    Trainer(frame, counts).run()


if __name__ == "__main__":
    main()
