"""LightGCN-style recommender trained with BPR on a synthetic interaction graph."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
import torch_xla
import torch_xla.core.xla_model as xm

N_USERS, N_ITEMS, DIM, LAYERS = 90, 120, 16, 2
EPOCHS, BATCH, EVAL_BATCH, TOPK = 5, 64, 40, 10


def build_interactions(rng, per_user=8):
    taste = rng.randn(N_USERS, 4)
    kind = rng.randn(N_ITEMS, 4)
    score = taste @ kind.T + rng.gumbel(size=(N_USERS, N_ITEMS))
    top = np.argsort(-score, axis=1)[:, :per_user]
    train, test = [], []
    for u in range(N_USERS):
        items = rng.permutation(top[u])
        train += [(u, i) for i in items[:-2]]
        test.append(items[-2:])
    return np.array(train), np.stack(test)


def normalized_edges(train):
    u, i = train[:, 0], train[:, 1] + N_USERS
    src = np.concatenate([u, i])
    dst = np.concatenate([i, u])
    deg = np.bincount(dst, minlength=N_USERS + N_ITEMS).clip(min=1)
    w = 1.0 / np.sqrt(deg[src] * deg[dst])
    return torch.from_numpy(src), torch.from_numpy(dst), torch.from_numpy(w.astype("float32"))


class LightGCN(nn.Module):
    def __init__(self, src, dst, weight):
        super().__init__()
        self.emb = nn.Parameter(0.1 * torch.randn(N_USERS + N_ITEMS, DIM))
        self.register_buffer("src", src)
        self.register_buffer("dst", dst)
        self.register_buffer("weight", weight.unsqueeze(1))

    def propagate(self):
        x, out = self.emb, self.emb
        for _ in range(LAYERS):
            msg = x.index_select(0, self.src) * self.weight
            x = torch.zeros_like(x).index_add(0, self.dst, msg)
            out = out + x
        out = out / (LAYERS + 1)
        return out[:N_USERS], out[N_USERS:]

    def bpr(self, u, pos, neg, l2=1e-4):
        users, items = self.propagate()
        uu, pp, nn_ = users[u], items[pos], items[neg]
        loss = F.softplus((uu * nn_).sum(1) - (uu * pp).sum(1)).mean()
        ego = self.emb[u].pow(2).sum() + self.emb[pos + N_USERS].pow(2).sum() + self.emb[neg + N_USERS].pow(2).sum()
        return loss + l2 * ego / u.size(0)


class NegativeSampler:
    def __init__(self, train, rng):
        self.rng = rng
        self.seen = [set() for _ in range(N_USERS)]
        for u, i in train:
            self.seen[u].add(i)

    def __call__(self, users):
        neg = np.empty(len(users), dtype=np.int64)
        for k, u in enumerate(users.tolist()):
            j = self.rng.randint(N_ITEMS)
            while j in self.seen[u]:
                j = self.rng.randint(N_ITEMS)
            neg[k] = j
        return torch.from_numpy(neg)


@torch.no_grad()
def recall_at_k(model, seen_mask, test, device):
    model.eval()
    users, items = model.propagate()
    xm.mark_step()
    hits = 0
    for ids in torch.arange(N_USERS).split(EVAL_BATCH):
        scores = users[ids.to(device)] @ items.t()
        scores = scores.masked_fill(seen_mask[ids].to(device), -1e9)
        top = scores.topk(TOPK, dim=1).indices
        xm.mark_step()
        top = top.cpu().numpy()
        hits += sum(len(np.intersect1d(top[r], test[u])) for r, u in enumerate(ids.tolist()))
    model.train()
    return hits / test.size


def main():
    torch.manual_seed(21)
    rng = np.random.RandomState(21)
    device = torch_xla.device()

    train, test = build_interactions(rng)
    seen_mask = torch.zeros(N_USERS, N_ITEMS, dtype=torch.bool)
    seen_mask[train[:, 0], train[:, 1]] = True
    sampler = NegativeSampler(train, rng)
    loader = DataLoader(TensorDataset(torch.from_numpy(train)), batch_size=BATCH, shuffle=True)

    model = LightGCN(*normalized_edges(train)).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=0.02)
    total_steps = EPOCHS * math.ceil(len(train) / BATCH)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=total_steps, eta_min=2e-3)

    for epoch in range(EPOCHS):
        running = []
        for (pairs,) in loader:
            u, pos = pairs[:, 0], pairs[:, 1]
            neg = sampler(u)
            loss = model.bpr(u.to(device), pos.to(device), neg.to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            xm.mark_step()
            running.append(loss.detach())
        mean_loss = sum(l.item() for l in running) / len(running)
        recall = recall_at_k(model, seen_mask, test, device)
        print(f"epoch {epoch}  bpr {mean_loss:.4f}  recall@{TOPK} {recall:.4f}")


if __name__ == "__main__":
    main()
