"""Fraud scoring on a synthetic table: wide & deep net, focal loss whose focusing strength grows during training."""
from collections import namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

HParams = namedtuple("HParams", "rows dense cats card emb hidden batch steps lr gamma_max alpha pos_rate")
hp = HParams(rows=4096, dense=10, cats=2, card=20, emb=4, hidden=32, batch=64, steps=24, lr=3e-3,
             gamma_max=3.0, alpha=0.75, pos_rate=0.08)


def make_table(hp, seed=0):
    rng = np.random.default_rng(seed)
    xd = rng.standard_normal((hp.rows, hp.dense)).astype("float32")
    xc = rng.integers(0, hp.card, (hp.rows, hp.cats))
    w = rng.standard_normal(hp.dense)
    bias = rng.standard_normal((hp.cats, hp.card))
    score = xd @ w + bias[np.arange(hp.cats), xc].sum(1) + rng.standard_normal(hp.rows)
    y = (score > np.quantile(score, 1 - hp.pos_rate)).astype("float32")
    return xd, xc, y


class WideDeep(nn.Module):
    def __init__(self, hp):
        super().__init__()
        self.emb = nn.ModuleList(nn.Embedding(hp.card, hp.emb) for _ in range(hp.cats))
        self.wide = nn.ModuleList(nn.Embedding(hp.card, 1) for _ in range(hp.cats))
        d = hp.dense + hp.cats * hp.emb
        self.deep = nn.Sequential(nn.Linear(d, hp.hidden), nn.SiLU(), nn.Dropout(0.1),
                                  nn.Linear(hp.hidden, hp.hidden), nn.SiLU(), nn.Linear(hp.hidden, 1))

    def forward(self, xd, xc):
        e = torch.cat([m(xc[:, i]) for i, m in enumerate(self.emb)], -1)
        w = sum(m(xc[:, i]) for i, m in enumerate(self.wide))
        return (self.deep(torch.cat([xd, e], -1)) + w).squeeze(-1)


class FocalLoss(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = alpha
        self.gamma = 0.0

    def forward(self, logits, y):
        bce = F.binary_cross_entropy_with_logits(logits, y, reduction="none")
        p = torch.sigmoid(logits)
        pt = p * y + (1 - p) * (1 - y)
        at = self.alpha * y + (1 - self.alpha) * (1 - y)
        return (at * (1 - pt) ** self.gamma * bce).mean()


class CosineRamp:
    """Any attribute of any object, from a to b along half a cosine."""

    def __init__(self, obj, attr, a, b, steps):
        self.obj, self.attr, self.a, self.b, self.steps = obj, attr, a, b, steps

    def step(self, i):
        f = 0.5 * (1 - np.cos(np.pi * min(1.0, (i + 1) / self.steps)))
        setattr(self.obj, self.attr, float(self.a + (self.b - self.a) * f))


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(1)
    dev = torch_xla.device()
    xd, xc, y = make_table(hp)
    model, crit = WideDeep(hp).to(dev), FocalLoss(hp.alpha)
    opt = torch.optim.Adam(model.parameters(), lr=hp.lr)
    lr_sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, hp.steps)
    ramp = CosineRamp(crit, "gamma", 0.5, hp.gamma_max, hp.steps)

    avg_loss = torch.zeros((), device=dev)
    for i in range(hp.steps):
        ramp.step(i)
        rows = rng.choice(hp.rows, hp.batch, replace=False)
        with torch_xla.step():
            bd = torch.from_numpy(xd[rows]).to(dev)
            bc = torch.from_numpy(xc[rows]).to(dev)
            by = torch.from_numpy(y[rows]).to(dev)
            opt.zero_grad(set_to_none=True)
            loss = crit(model(bd, bc), by)
            loss.backward()
            opt.step()
            avg_loss = 0.9 * avg_loss + 0.1 * loss.detach()
        lr_sched.step()
        if (i + 1) % 8 == 0:
            print(f"{i + 1:3d} gamma {crit.gamma:.3f} lr {lr_sched.get_last_lr()[0]:.2e} loss {avg_loss.item():.5f}")


if __name__ == "__main__":
    main()
