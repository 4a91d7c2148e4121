"""Next-item recommendation (SASRec-like) with Accelerate: gradient accumulation over
two batches, evaluation of the whole held-out set after every epoch."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

N_ITEMS, HISTORY = 60, 12


def synthetic_sessions(n, seed):
    """Users walk over the catalogue in small hops; sessions are left-padded with 0."""
    rng = np.random.RandomState(seed)
    out = np.zeros((n, HISTORY + 1), dtype="int64")
    for row in out:
        length = rng.randint(5, HISTORY + 2)
        hops = rng.choice([1, 2, 5], size=length, p=[0.7, 0.2, 0.1])
        row[-length:] = 1 + (rng.randint(N_ITEMS) + hops.cumsum()) % N_ITEMS
    return torch.from_numpy(out)


class SASRec(nn.Module):
    def __init__(self, dim=32, heads=2, layers=2, dropout=0.1):
        super().__init__()
        self.items = nn.Embedding(N_ITEMS + 1, dim, padding_idx=0)
        nn.init.normal_(self.items.weight, std=dim ** -0.5)
        self.pos = nn.Parameter(0.02 * torch.randn(HISTORY, dim))
        self.drop = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(
            dim, heads, 2 * dim, dropout, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        mask = torch.full((HISTORY, HISTORY), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, history):
        h = self.drop(self.items(history) + self.pos)
        h = self.encoder(h, mask=self.mask)
        return self.norm(h) @ self.items.weight.t()


def loss_fn(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=0)


@torch.no_grad()
def evaluate(accelerator, model, loader, k=10):
    model.eval()
    hits, ndcg, count = [], [], 0
    for (sessions,) in loader:
        logits = model(sessions[:, :-1])[:, -1]
        target = sessions[:, -1:]
        score = logits.gather(1, target)
        rank = (logits > score).sum(1)
        rank = accelerator.gather_for_metrics(rank)
        torch_xla.sync()
        rank = rank.cpu().float()
        hits.append((rank < k).float())
        ndcg.append((rank < k) / torch.log2(rank + 2))
        count += len(rank)
    model.train()
    return torch.cat(hits).mean().item(), torch.cat(ndcg).mean().item(), count


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--accumulate", type=int, default=2)
    ap.add_argument("--lr", type=float, default=3e-3)
    args = ap.parse_args()

    set_seed(17)
    accelerator = Accelerator(gradient_accumulation_steps=args.accumulate)
    train = TensorDataset(synthetic_sessions(168, seed=1))
    held_out = TensorDataset(synthetic_sessions(72, seed=2))
    train_loader = DataLoader(train, batch_size=args.batch_size, shuffle=True, drop_last=True)
    eval_loader = DataLoader(held_out, batch_size=32)

    model = SASRec()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    updates = args.epochs * len(train_loader) // args.accumulate
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=args.lr, total_steps=updates + 1)
    model, opt, train_loader, eval_loader = accelerator.prepare(
        model, opt, train_loader, eval_loader)

    done = 0
    for epoch in range(args.epochs):
        model.train()
        running = []
        for (sessions,) in train_loader:
            with accelerator.accumulate(model):
                logits = model(sessions[:, :-1])
                loss = loss_fn(logits, sessions[:, 1:])
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                opt.step()
                opt.zero_grad()
            torch_xla.sync()
            if accelerator.sync_gradients:
                done += 1
                sched.step()
            running.append(loss.detach())
        mean = sum(v.item() for v in running) / len(running)
        hit, ndcg, n = evaluate(accelerator, model, eval_loader)
        print(
            f"epoch {epoch} updates {done} loss {mean:.3f} "
            f"hit@10 {hit:.3f} ndcg@10 {ndcg:.3f} ({n} users)")


if __name__ == "__main__":
    main()
