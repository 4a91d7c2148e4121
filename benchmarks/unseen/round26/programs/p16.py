# BPR matrix factorisation with side features. Implicit feedback is sampled from a latent model.
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_USERS, N_ITEMS, N_CATS = 200, 150, 12
DIM, BATCH, STEPS = 16, 64, 32
L2 = 1e-3


def simulate(rng, n_events=6000):
    u = rng.normal(size=(N_USERS, 4))
    v = rng.normal(size=(N_ITEMS, 4))
    pop = rng.zipf(1.6, N_ITEMS).clip(max=50) / 50.0
    users = rng.integers(0, N_USERS, n_events)
    score = u[users] @ v.T + 2.0 * pop + rng.gumbel(size=(n_events, N_ITEMS))
    return users.astype(np.int64), score.argmax(1).astype(np.int64)


class BPR(nn.Module):
    def __init__(self, item_cat):
        super().__init__()
        self.user = nn.Embedding(N_USERS, DIM)
        self.item = nn.Embedding(N_ITEMS, DIM)
        self.cat = nn.Embedding(N_CATS, DIM)
        self.bias = nn.Embedding(N_ITEMS, 1)
        self.register_buffer("item_cat", item_cat)
        for e in (self.user, self.item, self.cat):
            nn.init.normal_(e.weight, std=0.05)
        nn.init.zeros_(self.bias.weight)

    def item_vec(self, i):
        return self.item(i) + self.cat(self.item_cat[i])

    def score(self, u, i):
        return (self.user(u) * self.item_vec(i)).sum(-1) + self.bias(i).squeeze(-1)

    def penalty(self, u, pos, neg):
        """L2 on the rows this batch touches, every row counted once."""
        items = torch.unique(torch.cat([pos, neg]))
        users = torch.unique(u)
        return self.item(items).pow(2).sum() + self.user(users).pow(2).sum()

    def forward(self, u, pos, neg):
        margin = self.score(u, pos) - self.score(u, neg)
        return -F.logsigmoid(margin).mean(), (margin > 0).float().mean()


def batches(rng, users, items, n):
    for _ in range(n):
        k = rng.integers(0, len(users), BATCH)
        neg = rng.integers(0, N_ITEMS, BATCH)
        yield tuple(torch.from_numpy(a) for a in (users[k], items[k], neg))


@torch.no_grad()
def hit_rate(model, users, items, device, k=10):
    hits = 0.0
    for s in range(0, 256, BATCH):
        u = torch.from_numpy(users[s:s + BATCH]).to(device)
        i = torch.from_numpy(items[s:s + BATCH]).to(device)
        every = torch.arange(N_ITEMS, device=device)
        scores = model.user(u) @ model.item_vec(every).t() + model.bias.weight.t()
        top = scores.topk(k, dim=1).indices
        hit = (top == i[:, None]).any(1).float().mean()
        xm.mark_step()
        hits += hit.item()
    return hits / (256 // BATCH)


def fit():
    rng = np.random.default_rng(42)
    torch.manual_seed(42)
    device = xm.xla_device()
    users, items = simulate(rng)
    model = BPR(torch.from_numpy(rng.integers(0, N_CATS, N_ITEMS))).to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=0.1)
    xm.mark_step()
    for step, batch in enumerate(batches(rng, users[:5000], items[:5000], STEPS), 1):
        u, pos, neg = (t.to(device) for t in batch)
        loss, auc = model(u, pos, neg)
        total = loss + L2 * model.penalty(u, pos, neg)
        opt.zero_grad()
        total.backward()
        xm.optimizer_step(opt, barrier=True)
        if step % 8 == 0:
            print(f"{step:4d} bpr {loss.item():.4f} batch-auc {auc.item():.3f}")
    print("hit@10", round(hit_rate(model, users[5000:], items[5000:], device), 4))


if __name__ == "__main__":
    fit()
