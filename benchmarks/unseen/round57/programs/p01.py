"""Two-tower retrieval model on implicit feedback, sampled softmax over a shared candidate set."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset


class Interactions(Dataset):
    """(user, recent history, clicked item) triples with a long-tailed item popularity."""

    def __init__(self, n_users, n_items, n_rows, hist_len, seed):
        rng = np.random.default_rng(seed)
        pop = 1.0 / np.arange(1, n_items + 1) ** 0.9
        self.popularity = pop / pop.sum()
        self.users = rng.integers(0, n_users, n_rows)
        base = rng.choice(n_items, size=n_rows, p=self.popularity)
        shift = (self.users * 7) % 23
        self.items = (base + shift) % n_items
        self.hist = np.zeros((n_rows, hist_len), dtype=np.int64)
        for r in range(n_rows):
            n = rng.integers(1, hist_len + 1)
            self.hist[r, :n] = 1 + (self.items[r] + rng.integers(-5, 6, n)) % n_items

    def __len__(self):
        return len(self.users)

    def __getitem__(self, i):
        return self.users[i], self.hist[i], self.items[i]


class SampledSoftmaxCollate:
    """Positives of the batch plus popularity-sampled negatives make one candidate list for all rows."""

    def __init__(self, popularity, n_neg, seed, smoothing=0.75):
        p = popularity ** smoothing
        self.p = p / p.sum()
        self.n_neg = n_neg
        self.rng = np.random.default_rng(seed)

    def __call__(self, rows):
        users, hist, items = zip(*rows)
        items = np.asarray(items)
        negatives = self.rng.choice(len(self.p), size=self.n_neg, p=self.p)
        candidates, inverse = np.unique(
            np.concatenate([items, negatives]), return_inverse=True)
        log_q = np.log(self.p[candidates] * (len(items) + self.n_neg))
        return {
            "user": torch.as_tensor(np.asarray(users)),
            "hist": torch.as_tensor(np.stack(hist)),
            "cand": torch.as_tensor(candidates),
            "log_q": torch.as_tensor(log_q, dtype=torch.float32),
            "label": torch.as_tensor(inverse[: len(items)].astype(np.int64)),
        }


class UserTower(nn.Module):
    def __init__(self, n_users, n_items, dim):
        super().__init__()
        self.user = nn.Embedding(n_users, dim)
        self.hist = nn.Embedding(n_items + 1, dim, padding_idx=0)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, user, hist):
        mask = (hist > 0).unsqueeze(-1).float()
        pooled = (self.hist(hist) * mask).sum(1) / mask.sum(1).clamp(min=1.0)
        return F.normalize(self.mlp(torch.cat([self.user(user), pooled], -1)), dim=-1)


class ItemTower(nn.Module):
    def __init__(self, n_items, dim):
        super().__init__()
        self.emb = nn.Embedding(n_items, dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, item):
        return F.normalize(self.proj(self.emb(item)), dim=-1)


class TwoTower(nn.Module):
    def __init__(self, n_users, n_items, dim):
        super().__init__()
        self.users = UserTower(n_users, n_items, dim)
        self.items = ItemTower(n_items, dim)
        self.log_scale = nn.Parameter(torch.tensor(math.log(10.0)))

    def forward(self, batch):
        u = self.users(batch["user"], batch["hist"])
        v = self.items(batch["cand"])
        logits = u @ v.t() * self.log_scale.exp().clamp(max=50.0)
        return logits - batch["log_q"]


def warmup_cosine(step, warmup, total):
    if step < warmup:
        return (step + 1) / (warmup + 1)
    t = (step - warmup) / max(1, total - warmup)
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * t))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batch-size", type=int, default=48)
    ap.add_argument("--negatives", type=int, default=96)
    ap.add_argument("--dim", type=int, default=16)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--log-every", type=int, default=10)
    args = ap.parse_args()

    torch.manual_seed(0)
    device = xm.xla_device()
    data = Interactions(300, 400, 48 * 18, hist_len=10, seed=1)
    collate = SampledSoftmaxCollate(data.popularity, args.negatives, seed=2)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True,
                        collate_fn=collate, generator=torch.Generator().manual_seed(3))

    model = TwoTower(300, 400, args.dim).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    total = args.epochs * len(loader)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: warmup_cosine(s, 5, total))

    running = torch.zeros((), device=device)
    step = 0
    for epoch in range(args.epochs):
        model.train()
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            opt.zero_grad(set_to_none=True)
            logits = model(batch)
            loss = F.cross_entropy(logits, batch["label"])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            opt.step()
            sched.step()
            running += loss.detach()
            torch_xla.sync()
            step += 1
            if step % args.log_every == 0:
                print(f"epoch {epoch} step {step} loss {running.item() / args.log_every:.4f}")
                running.zero_()


if __name__ == "__main__":
    main()
