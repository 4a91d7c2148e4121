"""Population pharmacokinetics with a learned elimination term (two compartments)."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.debug.metrics as met


class VisitSampler:
    """Yields padded (times, doses, concentrations, covariates) for a few subjects."""

    def __init__(self, n_subjects=48, n_obs=3, batch=12, seed=7):
        rng = np.random.default_rng(seed)
        gaps = rng.uniform(0.25, 0.95, size=(n_subjects, n_obs - 1))
        gaps[31, 1] = 1.6
        gaps[44, 0] = 1.3
        self.t = np.concatenate([np.zeros((n_subjects, 1)), gaps.cumsum(1)], 1).astype("float32")
        self.dose = rng.choice([0.0, 1.0, 2.5], size=(n_subjects, n_obs)).astype("float32")
        self.y = np.exp(rng.normal(0, 0.4, size=(n_subjects, n_obs))).astype("float32")
        self.cov = rng.normal(size=(n_subjects, 3)).astype("float32")
        self.batch = batch

    def __iter__(self):
        for i in range(0, len(self.t), self.batch):
            s = slice(i, i + self.batch)
            yield tuple(torch.from_numpy(a[s]) for a in (self.t, self.dose, self.y, self.cov))


class Elimination(nn.Module):
    def __init__(self, n_cov=3, width=16):
        super().__init__()
        self.inp = nn.Linear(2 + n_cov, width)
        self.out = nn.Linear(width, 2)
        self.log_ke = nn.Parameter(torch.tensor([-1.0, -1.5]))

    def forward(self, state, cov):
        h = torch.tanh(self.inp(torch.cat([state, cov], dim=-1)))
        exchange = state.flip(-1) - state
        return self.out(h) + exchange * torch.sigmoid(h[:, :1]) - state * self.log_ke.exp()


class Subject(nn.Module):
    def __init__(self, h_max=1.0):
        super().__init__()
        self.f = Elimination()
        self.h_max = h_max
        self.absorb = nn.Linear(1, 2, bias=False)
        self.volume = nn.Linear(3, 1)

    def advance(self, state, cov, span, n):
        h = span / n
        for _ in range(n):
            state = state + h * self.f(state, cov)
        return state

    def forward(self, t, dose, cov):
        dt = t[:, 1:] - t[:, :-1]
        n = max(1, math.ceil(dt.max().item() / self.h_max))
        dev = self.volume.weight.device
        dt, dose, cov = dt.to(dev), dose.to(dev), cov.to(dev)
        vol = nn.functional.softplus(self.volume(cov)) + 0.1
        state = self.absorb(dose[:, :1])
        seen = [state[:, :1] / vol]
        for k in range(dt.shape[1]):
            state = self.advance(state, cov, dt[:, k:k + 1], n)
            seen.append(state[:, :1] / vol)
            state = state + self.absorb(dose[:, k + 1:k + 2])
        return torch.cat(seen, dim=1)


def residual_error(pred, obs, log_sigma):
    prop, add = log_sigma.exp()
    scale = add + prop * pred.abs()
    return (0.5 * ((obs - pred) / scale) ** 2 + scale.log()).mean()


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Subject().to(device)
    log_sigma = nn.Parameter(torch.tensor([-1.0, -0.5], device=device))
    opt = torch.optim.RMSprop([*model.parameters(), log_sigma], lr=3e-3, momentum=0.8)
    torch_xla.sync()
    visits = VisitSampler()
    step = 0
    for epoch in range(2):
        for t, dose, y, cov in visits:
            opt.zero_grad()
            pred = model(t, dose, cov)
            loss = residual_error(pred, y.to(device), log_sigma)
            loss.backward()
            opt.step()
            torch_xla.sync()
            step += 1
            print(step, met.counter_value("UncachedCompile") or 0)


if __name__ == "__main__":
    main()
