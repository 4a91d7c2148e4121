"""Implicit feedback recommender, denoising training with truncated BCE.

Clicks are noisy, so the largest losses of every batch are dropped; the drop
rate is raised linearly during the first iterations.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm

USERS, ITEMS = 120, 200
FACTORS = 8
BATCH = 64
DROP_RATE = 0.45
NUM_GRADUAL = 50
ITERATIONS = 70
LR = 5e-3


class NCF(nn.Module):
    """NeuMF: GMF branch and MLP branch."""

    def __init__(self, users, items, k):
        super().__init__()
        self.user_gmf = nn.Embedding(users, k)
        self.item_gmf = nn.Embedding(items, k)
        self.user_mlp = nn.Embedding(users, k)
        self.item_mlp = nn.Embedding(items, k)
        self.mlp = nn.Sequential(nn.Linear(2 * k, 16), nn.ReLU(), nn.Linear(16, k), nn.ReLU())
        self.out = nn.Linear(2 * k, 1)
        for e in (self.user_gmf, self.item_gmf, self.user_mlp, self.item_mlp):
            nn.init.normal_(e.weight, std=0.05)

    def forward(self, u, i):
        gmf = self.user_gmf(u) * self.item_gmf(i)
        mlp = self.mlp(torch.cat([self.user_mlp(u), self.item_mlp(i)], -1))
        return self.out(torch.cat([gmf, mlp], -1)).view(-1)


class Interactions:
    def __init__(self, seed=0, n=4000, noise=0.25):
        rng = np.random.default_rng(seed)
        self.rng = rng
        taste_u = rng.normal(size=(USERS, 4))
        taste_i = rng.normal(size=(ITEMS, 4))
        self.u = rng.integers(0, USERS, n)
        self.i = rng.integers(0, ITEMS, n)
        clean = (taste_u[self.u] * taste_i[self.i]).sum(1) > 0
        flip = rng.random(n) < noise
        self.y = (clean ^ flip).astype(np.float32)

    def batch(self, size):
        k = self.rng.integers(0, len(self.u), size)
        return (torch.from_numpy(self.u[k]), torch.from_numpy(self.i[k]), torch.from_numpy(self.y[k]))


def drop_rate_schedule(it):
    return float(np.linspace(0, DROP_RATE, NUM_GRADUAL)[it]) if it < NUM_GRADUAL else DROP_RATE


def truncated_bce(logits, target, drop_rate):
    loss = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    ind_sorted = torch.argsort(loss.detach())
    num_remember = int((1 - drop_rate) * len(ind_sorted))
    keep = ind_sorted[:num_remember]
    return F.binary_cross_entropy_with_logits(logits[keep], target[keep])


def main():
    torch.manual_seed(0)
    dev = xm.xla_device()
    data = Interactions()
    net = NCF(USERS, ITEMS, FACTORS).to(dev)
    optimizer = torch.optim.Adam(net.parameters(), lr=LR)
    tracker = xm.RateTracker()
    for it in range(ITERATIONS):
        u, i, y = [t.to(dev) for t in data.batch(BATCH)]
        optimizer.zero_grad()
        pred = net(u, i)
        loss = truncated_bce(pred, y, drop_rate_schedule(it))
        loss.backward()
        xm.optimizer_step(optimizer, barrier=True)
        tracker.add(BATCH)
        if it % 10 == 9:
            print("iter {:03d} | T-CE {:.4f} | {:.0f} ex/s".format(it, loss.item(), tracker.rate()))


main()
