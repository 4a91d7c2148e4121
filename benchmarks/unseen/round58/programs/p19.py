"""Neural Cox regression over hospital cohorts of unequal size, with length buckets."""
import bisect

import numpy as np
import torch
import torch.nn as nn
import torch_xla

COVARIATES = 10
BUCKETS = [16, 32, 48]
EPOCHS, COHORTS = 4, 14
WARM_STEPS = 14    # the risk head alone, before the encoder joins


class Registry:
    """Exponential survival with a nonlinear hazard and administrative censoring."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.beta = self.rng.normal(0, 0.6, COVARIATES)
        self.cohorts = [self._cohort(int(n)) for n in self.rng.integers(7, 49, COHORTS)]
        self.holdout = self._cohort(40)

    def _cohort(self, n):
        x = self.rng.normal(0, 1, (n, COVARIATES)) + self.rng.normal(0, 0.3, COVARIATES)
        hazard = np.exp(np.tanh(x) @ self.beta + 0.3 * x[:, 0] * x[:, 1])
        t = self.rng.exponential(1 / hazard)
        c = self.rng.uniform(0.3, 3.0, n)
        return x.astype(np.float32), np.minimum(t, c).astype(np.float32), t <= c


def collate(cohort):
    """Sort by falling follow-up time and pad to the bucket."""
    x, time, event = cohort
    n = len(time)
    size = BUCKETS[bisect.bisect_left(BUCKETS, n)]
    order = np.argsort(-time)
    xs = np.zeros((size, COVARIATES), np.float32)
    xs[:n] = x[order]
    ev = np.zeros(size, np.float32)
    ev[:n] = event[order]
    ts = np.full(size, -1.0, np.float32)
    ts[:n] = time[order]
    valid = (np.arange(size) < n).astype(np.float32)
    return tuple(torch.from_numpy(a) for a in (xs, ts, ev, valid))


class RiskNet(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(COVARIATES, hidden), nn.SELU(),
                                     nn.Linear(hidden, hidden), nn.SELU())
        self.risk = nn.Linear(hidden + COVARIATES, 1, bias=False)

    def forward(self, x):
        return self.risk(torch.cat([self.encoder(x), x], -1)).squeeze(-1)


def cox_loss(score, event, valid):
    """Breslow partial likelihood; rows come sorted, so a risk set is a prefix."""
    shifted = torch.where(valid > 0, score, torch.full_like(score, -1e4))
    top = shifted.max().detach()
    denom = torch.log(torch.cumsum(torch.exp(shifted - top), 0)) + top
    return -((score - denom) * event).sum() / event.sum().clamp(min=1)


@torch.no_grad()
def concordance(score, time, event, valid):
    pair = (time[:, None] < time[None, :]) & (event[:, None] > 0) & ((valid[:, None] * valid[None, :]) > 0)
    right = (score[:, None] > score[None, :]) & pair
    return right.float().sum() / pair.float().sum()


def set_encoder(model, opt, trainable):
    for p in model.encoder.parameters():
        p.requires_grad_(trainable)
    opt.zero_grad(set_to_none=True)


def main():
    torch.manual_seed(31)
    rng = np.random.default_rng(31)
    device = torch_xla.device()
    registry = Registry(seed=10)
    model = RiskNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-3)
    hx, ht, he, hv = (t.to(device) for t in collate(registry.holdout))
    set_encoder(model, opt, False)
    torch_xla.sync()

    step = 0
    for epoch in range(EPOCHS):
        losses = []
        for i in rng.permutation(COHORTS):
            if step == WARM_STEPS:
                set_encoder(model, opt, True)
            x, _, event, valid = (t.to(device) for t in collate(registry.cohorts[i]))
            opt.zero_grad(set_to_none=True)
            loss = cox_loss(model(x), event, valid)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 2.0)
            opt.step()
            torch_xla.sync()
            losses.append(loss.detach())
            step += 1
        with torch.no_grad():
            c_index = concordance(model(hx), ht, he, hv).item()
        print(f"epoch {epoch} steps {step} loss {np.mean([v.item() for v in losses]):.3f} c-index {c_index:.3f}")


if __name__ == "__main__":
    main()
