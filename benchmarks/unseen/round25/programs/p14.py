"""BPR matrix factorisation with side features for implicit feedback."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    users: int = 200
    items: int = 400
    dim: int = 12
    batch: int = 48
    steps: int = 30
    lr: float = 0.05
    reg: float = 1e-3
    log_every: int = 10


class Interactions:
    def __init__(self, cfg, seed=0):
        self.rng = np.random.default_rng(seed)
        self.cfg = cfg
        u = self.rng.normal(size=(cfg.users, 4))
        i = self.rng.normal(size=(cfg.items, 4))
        scores = u @ i.T + 0.5 * self.rng.normal(size=(cfg.users, cfg.items))
        self.pos = np.argsort(-scores, axis=1)[:, :20]
        self.pop = 1.0 / np.arange(1, cfg.items + 1)
        self.pop /= self.pop.sum()
        self.features = torch.tensor(i, dtype=torch.float32)

    def sample(self):
        c = self.cfg
        u = self.rng.integers(0, c.users, size=c.batch)
        p = self.pos[u, self.rng.integers(0, 20, size=c.batch)]
        n = self.rng.choice(c.items, size=c.batch, p=self.pop)
        return [torch.from_numpy(x.astype(np.int64)) for x in (u, p, n)]


class BPR(nn.Module):
    def __init__(self, cfg, features):
        super().__init__()
        self.user = nn.Embedding(cfg.users, cfg.dim)
        self.item = nn.Embedding(cfg.items, cfg.dim)
        self.bias = nn.Embedding(cfg.items, 1)
        self.register_buffer("features", features)
        self.proj = nn.Linear(features.shape[1], cfg.dim, bias=False)
        for e in (self.user, self.item):
            nn.init.normal_(e.weight, std=0.05)
        nn.init.zeros_(self.bias.weight)

    def item_vec(self, idx):
        return self.item(idx) + self.proj(self.features[idx])

    def score(self, u, i):
        return (self.user(u) * self.item_vec(i)).sum(-1) + self.bias(i).squeeze(-1)

    def penalty(self, u, p, n):
        rows = torch.unique(torch.cat([p, n]))
        users = torch.unique(u)
        reg = self.item(rows).pow(2).sum(1).mean() + self.user(users).pow(2).sum(1).mean()
        return reg + self.bias(rows).pow(2).mean()


def train_step(model, opt, batch, cfg):
    u, p, n = batch
    margin = model.score(u, p) - model.score(u, n)
    loss = -F.logsigmoid(margin).mean()
    total = loss + cfg.reg * model.penalty(u, p, n)
    opt.zero_grad()
    total.backward()
    xm.optimizer_step(opt, barrier=True)
    return loss.detach(), (margin.detach() > 0).float().mean()


def main():
    cfg = Config()
    torch.manual_seed(0)
    data = Interactions(cfg)
    device = torch_xla.device()
    model = BPR(cfg, data.features).to(device)
    opt = torch.optim.Adagrad(model.parameters(), lr=cfg.lr)
    losses, aucs = [], []
    for step in range(1, cfg.steps + 1):
        batch = [t.to(device) for t in data.sample()]
        loss, auc = train_step(model, opt, batch, cfg)
        losses.append(loss)
        aucs.append(auc)
        if step % cfg.log_every == 0:
            l = np.mean([x.item() for x in losses])
            a = np.mean([x.item() for x in aucs])
            print(f"{step:4d} bpr {l:.4f} auc {a:.3f}")
            losses, aucs = [], []


if __name__ == "__main__":
    main()
