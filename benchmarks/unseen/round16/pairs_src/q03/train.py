"""Two-tower retrieval (user x item) with a slow copy of the item tower."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

USERS, ITEMS, DIM, BATCH = 200, 120, 16, 32
SLOW_EVERY = 5
STEPS = 30


class Tower(nn.Module):
    def __init__(self, n, hist=None):
        super().__init__()
        self.table = nn.Embedding(n, DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.PReLU(), nn.LayerNorm(2 * DIM), nn.Linear(2 * DIM, DIM))

    def forward(self, ids):
        return F.normalize(self.table(ids) + self.mlp(self.table(ids)), dim=-1)


class Lookahead:
    """k steps forward, one step back on a set of parameters."""

    def __init__(self, params, k, alpha=0.5):
        self.fast = [p for p in params if p.requires_grad]
        self.slow = [p.detach().clone() for p in self.fast]
        self.k, self.alpha, self.count = k, alpha, 0

    @torch.no_grad()
    def step(self):
        self.count += 1
        if self.count % self.k:
            return
        for s, f in zip(self.slow, self.fast):
            s.lerp_(f, self.alpha)
            f.copy_(s)


class Interactions:
    def __init__(self, seed=5):
        self.g = torch.Generator().manual_seed(seed)
        self.affinity = torch.randint(0, ITEMS, (USERS, 8), generator=self.g)

    def batch(self):
        u = torch.randint(0, USERS, (BATCH,), generator=self.g)
        pick = torch.randint(0, 8, (BATCH,), generator=self.g)
        return u, self.affinity[u, pick]


def in_batch_softmax(u, v, items, temp=0.1):
    scores = u @ v.t() / temp
    same = items[:, None] == items[None, :]
    eye = torch.eye(BATCH, dtype=torch.bool, device=u.device)
    scores = scores.masked_fill(same & ~eye, -1e4)
    return F.cross_entropy(scores, torch.arange(BATCH, device=u.device))


def train():
    torch.manual_seed(0)
    device = xm.xla_device()
    user_tower = Tower(USERS).to(device)
    item_tower = Tower(ITEMS).to(device)
    frozen = copy.deepcopy(item_tower).requires_grad_(False)
    data = Interactions()
    opt = torch.optim.Adagrad(
        [{"params": user_tower.parameters()}, {"params": item_tower.parameters(), "lr": 0.02}], lr=0.05)
    look = Lookahead(list(user_tower.parameters()) + list(item_tower.parameters()), SLOW_EVERY)
    torch_xla.sync()
    history = []
    for it in range(STEPS):
        uid, iid = data.batch()
        uid, iid = uid.to(device), iid.to(device)
        u, v = user_tower(uid), item_tower(iid)
        anchor = (v - frozen(iid)).pow(2).mean()
        loss = in_batch_softmax(u, v, iid) + 0.05 * anchor
        opt.zero_grad()
        loss.backward()
        opt.step()
        look.step()
        torch_xla.sync()
        history.append(loss.detach())
    print("first/last loss", history[0].item(), history[-1].item())


if __name__ == "__main__":
    train()
