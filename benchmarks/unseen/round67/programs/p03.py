"""Neural ODE for drug concentration curves under repeated oral dosing.

The vector field is a small network on top of a two-compartment model; it is
integrated with an embedded Heun/Euler pair and fitted to noisy plasma samples
drawn at the end of each sampling window.
"""
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


def simulate_patient(rng, times, hours):
    ka = rng.uniform(0.6, 1.4)
    ke = rng.uniform(0.08, 0.2)
    volume = rng.uniform(0.8, 1.3)
    dose = rng.uniform(0.5, 1.5)
    c = 0.0
    for start in times:
        t = hours - start
        c += dose * ka / (volume * (ka - ke)) * (math.exp(-ke * t) - math.exp(-ka * t))
    covariates = [dose, volume - 1.0, ke * 5.0]
    return covariates, max(c + rng.normal(0.0, 0.01), 0.0)


class Cohort:
    """Batches of patients that share a dosing regimen and a sampling time."""

    def __init__(self, batch_size, seed):
        self.batch_size = batch_size
        self.rng = np.random.default_rng(seed)

    def draw(self):
        gaps = self.rng.uniform(0.4, 2.2, size=3)
        times = [0.0, float(gaps[0]), float(gaps[0] + gaps[1])]
        hours = float(gaps.sum())
        rows = [simulate_patient(self.rng, times, hours) for _ in range(self.batch_size)]
        covariates = torch.tensor([r[0] for r in rows], dtype=torch.float32)
        target = torch.tensor([r[1] for r in rows], dtype=torch.float32)
        return times, hours, covariates, target


class Kinetics(nn.Module):
    def __init__(self, covariates=3, hidden=16):
        super().__init__()
        self.log_ka = nn.Parameter(torch.tensor(0.0))
        self.log_ke = nn.Parameter(torch.tensor(-2.0))
        self.correction = nn.Sequential(
            nn.Linear(2 + covariates, hidden), nn.Tanh(), nn.Linear(hidden, 2))
        nn.init.zeros_(self.correction[-1].weight)
        nn.init.zeros_(self.correction[-1].bias)

    def forward(self, state, covariates):
        gut, plasma = state[:, 0], state[:, 1]
        absorbed = self.log_ka.exp() * gut
        cleared = self.log_ke.exp() * plasma
        flow = torch.stack([-absorbed, absorbed - cleared], dim=1)
        return flow + 0.1 * self.correction(torch.cat([state, covariates], dim=1))


class HeunEuler:
    """Embedded pair of orders two and one with step-size control."""

    def __init__(self, field, rtol=0.2, atol=0.1, first=0.5):
        self.field = field
        self.rtol = rtol
        self.atol = atol
        self.h = first

    def attempt(self, y, cov, h):
        k1 = self.field(y, cov)
        k2 = self.field(y + h * k1, cov)
        high = y + 0.5 * h * (k1 + k2)
        error = 0.5 * h * (k2 - k1)
        scale = self.atol + self.rtol * torch.maximum(y.abs(), high.abs())
        return high, (error / scale).pow(2).mean().sqrt()

    def integrate(self, y, cov, start, end, max_evals=12):
        t, h, evals = start, self.h, 0
        while t < end - 1e-6 and evals < max_evals:
            h = min(h, end - t)
            proposal, ratio = self.attempt(y, cov, h)
            ratio = ratio.item()
            evals += 1
            if ratio <= 1.0:
                t += h
                y = proposal
            h *= min(4.0, max(0.25, 0.98 / math.sqrt(max(ratio, 1e-4))))
        self.h = h
        return y, evals


def predict(solver, covariates, times, hours):
    dose = covariates[:, 0]
    bolus = torch.stack([dose, torch.zeros_like(dose)], dim=1)
    state = torch.zeros_like(bolus)
    evals = 0
    for start, end in zip(times, times[1:] + [hours]):
        state, n = solver.integrate(state + bolus, covariates, start, end)
        evals += n
    return state[:, 1], evals


def main():
    torch.manual_seed(31)
    device = xm.xla_device()
    cohort = Cohort(batch_size=8, seed=7)

    field = Kinetics().to(device)
    solver = HeunEuler(field)
    optimizer = torch.optim.Adam(field.parameters(), lr=2e-2)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.97)

    total_evals = 0
    smooth = None
    for it in range(1, 16):
        times, hours, covariates, target = cohort.draw()
        covariates, target = covariates.to(device), target.to(device)

        plasma, evals = predict(solver, covariates, times, hours)
        loss = ((plasma - target) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(field.parameters(), 1.0)
        optimizer.step()
        decay.step()
        torch_xla.sync()

        total_evals += evals
        value = loss.item()
        smooth = value if smooth is None else 0.9 * smooth + 0.1 * value
        if it % 5 == 0:
            print(f"iter {it:3d}  mse {smooth:.4f}  evals/iter {total_evals / it:.1f}")


if __name__ == "__main__":
    main()
