"""Two-tower retrieval model with a sampled softmax."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

config = {
    "n_users": 300,
    "n_items": 500,
    "dim": 16,
    "batch": 64,
    "negatives": 128,
    "steps": 56,
    "log_every": 7,
    "lr": 5e-3,
    "seed": 21,
}


class Interactions:
    def __init__(self, n_users, n_items, rng):
        self.rng = rng
        pop = 1.0 / np.arange(1, n_items + 1) ** 0.9
        self.pop = pop / pop.sum()
        self.taste = rng.integers(0, n_items, n_users)
        self.n_items, self.n_users = n_items, n_users

    def sample(self, batch):
        users = self.rng.integers(0, self.n_users, batch)
        jitter = self.rng.integers(-5, 6, batch)
        pos = (self.taste[users] + jitter) % self.n_items
        return users, pos

    def negatives(self, n):
        return self.rng.choice(self.n_items, n, p=self.pop)


class Tower(nn.Module):
    def __init__(self, n, dim):
        super().__init__()
        self.emb = nn.Embedding(n, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, ids):
        return F.normalize(self.mlp(self.emb(ids)), dim=-1)


class Retrieval(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.user = Tower(cfg["n_users"], cfg["dim"])
        self.item = Tower(cfg["n_items"], cfg["dim"])
        self.log_t = nn.Parameter(torch.tensor(2.0))

    def forward(self, users, candidates, log_q):
        scores = self.user(users) @ self.item(candidates).T
        return scores * self.log_t.exp() - log_q[None, :]


class Tracker:
    def __init__(self):
        self.losses = []

    def add(self, loss):
        self.losses.append(loss.detach())

    def mean(self):
        return torch.stack(self.losses).mean()


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        rng = np.random.default_rng(cfg["seed"])
        torch.manual_seed(cfg["seed"])
        self.device = torch_xla.device()
        self.data = Interactions(cfg["n_users"], cfg["n_items"], rng)
        self.model = Retrieval(cfg).to(self.device)
        self.opt = torch.optim.Adagrad(self.model.parameters(), lr=cfg["lr"])
        self.tracker = Tracker()

    def make_batch(self):
        users, pos = self.data.sample(self.cfg["batch"])
        neg = self.data.negatives(self.cfg["negatives"])
        # every candidate once, targets point into the candidate list
        cand, inverse = np.unique(np.concatenate([pos, neg]), return_inverse=True)
        target = inverse[: len(pos)]
        log_q = np.log(self.data.pop[cand]).astype(np.float32)
        return [torch.from_numpy(a) for a in (users, cand, log_q, target)]

    def step(self):
        users, cand, log_q, target = (t.to(self.device) for t in self.make_batch())
        logits = self.model(users, cand, log_q)
        loss = F.cross_entropy(logits, target)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.tracker.add(loss)
        torch_xla.sync()

    def fit(self):
        for it in range(1, self.cfg["steps"] + 1):
            self.step()
            if it % self.cfg["log_every"] == 0:
                print(f"it {it} mean loss so far {self.tracker.mean().item():.4f}", flush=True)


if __name__ == "__main__":
    Trainer(config).fit()
