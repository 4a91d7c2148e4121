"""Active learning on molecular fingerprints with an ensemble of small MLPs.

Every round the ensemble is trained for a few full-batch epochs on what has been
measured so far; the molecules it disagrees on most are sent to the "assay"
and join the measured set. The pool lives on the device for the whole campaign.
"""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch_xla


@dataclass
class Campaign:
    pool: int = 600
    bits: int = 128
    start: int = 48
    per_round: int = 16
    rounds: int = 9
    epochs: int = 5
    members: int = 4
    hidden: int = 32
    lr: float = 4e-3
    seed: int = 91


def make_library(cfg):
    rng = np.random.default_rng(cfg.seed)
    fp = (rng.random((cfg.pool, cfg.bits)) < 0.12).astype(np.float32)
    w1 = rng.normal(0, 1, (cfg.bits, 6))
    act = np.tanh(fp @ w1).sum(1) + 0.1 * rng.normal(size=cfg.pool)
    act = (act - act.mean()) / act.std()
    return torch.from_numpy(fp), torch.from_numpy(act.astype(np.float32))


class Ensemble(nn.Module):
    """All members in one set of batched weights."""

    def __init__(self, members, bits, hidden):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(members, bits, hidden) * (2.0 / bits) ** 0.5)
        self.b1 = nn.Parameter(torch.zeros(members, 1, hidden))
        self.w2 = nn.Parameter(torch.randn(members, hidden, 1) * (1.0 / hidden) ** 0.5)
        self.b2 = nn.Parameter(torch.zeros(members, 1, 1))

    def forward(self, x):
        h = torch.relu(torch.matmul(x.unsqueeze(0), self.w1) + self.b1)
        return (torch.matmul(h, self.w2) + self.b2).squeeze(-1)


class Assay:
    """Keeps track of what has been measured; answers come back a round later."""

    def __init__(self, activity, start, seed):
        self.activity = activity
        order = np.random.default_rng(seed).permutation(len(activity))
        self.measured = list(order[:start])

    def submit(self, picks):
        self.measured.extend(int(i) for i in picks)

    def batch(self):
        idx = torch.as_tensor(np.array(self.measured), dtype=torch.long)
        return idx, self.activity[idx]

    def mask(self, n):
        m = torch.zeros(n, dtype=torch.bool)
        m[torch.as_tensor(np.array(self.measured), dtype=torch.long)] = True
        return m


def fit(model, opt, pool, assay, cfg, device):
    idx, y = assay.batch()
    idx, y = idx.to(device), y.to(device)
    x = pool.index_select(0, idx)
    torch_xla.sync()
    loss = None
    for _ in range(cfg.epochs):
        opt.zero_grad(set_to_none=True)
        pred = model(x)
        loss = (pred - y.unsqueeze(0)).pow(2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        torch_xla.sync()
    return loss.detach()


@torch.no_grad()
def acquire(model, pool, assay, cfg, device):
    pred = model(pool)
    spread = pred.var(dim=0)
    seen = assay.mask(pool.size(0)).to(device)
    spread = spread.masked_fill(seen, -1.0)
    picks = torch.topk(spread, cfg.per_round).indices
    torch_xla.sync()
    return picks.cpu().tolist()


@torch.no_grad()
def score(model, pool, activity):
    pred = model(pool).mean(0)
    a = pred - pred.mean()
    b = activity - activity.mean()
    r = (a * b).sum() / (a.norm() * b.norm() + 1e-8)
    torch_xla.sync()
    return r.item()


def main():
    cfg = Campaign()
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()

    fp, activity = make_library(cfg)
    pool = fp.to(device)
    truth = activity.to(device)
    assay = Assay(activity, cfg.start, cfg.seed)

    model = Ensemble(cfg.members, cfg.bits, cfg.hidden).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    torch_xla.sync()

    for r in range(cfg.rounds):
        loss = fit(model, opt, pool, assay, cfg, device)
        picks = acquire(model, pool, assay, cfg, device)
        corr = score(model, pool, truth)
        print(f"round {r} measured {len(assay.measured):3d} "
              f"mse {loss.item():.4f} pearson {corr:.3f}")
        assay.submit(picks)


if __name__ == "__main__":
    main()
