"""Continuous-time model of tumour growth curves (neural ODE).

An encoder reads the first observations of a patient, a latent state is
integrated to the time of the follow-up visit, and the decoder predicts the
volume there.  Bogacki-Shampine 3(2) pair with the usual step size controller.
"""
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 11
OBS = 5
LATENT = 4
BATCH = 24
STEPS = 30


class VectorField(nn.Module):
    def __init__(self, dim, hidden=24):
        super().__init__()
        self.lin1 = nn.Linear(dim + 2, hidden)
        self.lin2 = nn.Linear(hidden, dim)

    def forward(self, t, z):
        phase = torch.full_like(z[:, :1], math.sin(t + 0.3))
        season = torch.full_like(z[:, :1], math.cos(t + 0.3))
        h = torch.tanh(self.lin1(torch.cat([z, phase, season], dim=1)))
        return 3.0 * self.lin2(h) - z


class BS23:
    """Embedded Runge-Kutta 3(2) with PI-free step control."""

    def __init__(self, rtol=5e-3, atol=1e-3, first_step=0.2, safety=0.9):
        self.rtol, self.atol = rtol, atol
        self.first_step = first_step
        self.safety = safety
        self.nfe = 0

    def _trial(self, f, t, z, h):
        k1 = f(t, z)
        k2 = f(t + 0.5 * h, z + (0.5 * h) * k1)
        k3 = f(t + 0.75 * h, z + (0.75 * h) * k2)
        z_new = z + h * (2 / 9 * k1 + 1 / 3 * k2 + 4 / 9 * k3)
        k4 = f(t + h, z_new)
        err = h * (-5 / 72 * k1 + 1 / 12 * k2 + 1 / 9 * k3 - 1 / 8 * k4)
        self.nfe += 4
        return z_new, err

    def integrate(self, f, z, t0, t1):
        t, h = t0, self.first_step
        while t < t1 - 1e-6:
            h = min(h, t1 - t)
            z_new, err = self._trial(f, t, z, h)
            with torch.no_grad():
                scale = self.atol + self.rtol * torch.maximum(z.abs(), z_new.abs())
                ratio = (err / scale).pow(2).mean().sqrt().item()
            if ratio <= 1.0:
                t, z = t + h, z_new
            factor = self.safety * max(ratio, 1e-8) ** (-1 / 3)
            h = h * min(4.0, max(0.25, factor))
        return z


class GrowthModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(OBS, 32), nn.Tanh(), nn.Linear(32, LATENT))
        self.field = VectorField(LATENT)
        self.decoder = nn.Linear(LATENT, 1)
        self.solver = BS23()

    def forward(self, early, visit_time):
        z0 = self.encoder(early)
        z1 = self.solver.integrate(self.field, z0, 0.0, visit_time)
        return self.decoder(z1).squeeze(-1)


class Cohort:
    """Gompertz curves with a random growth rate; one visit day per batch.

    Early batches ask for near visits only, later ones also for distant ones.
    """

    def __init__(self, rng):
        self.rng = rng

    def volume(self, rate, cap, t):
        return cap * np.exp(-np.exp(1.0 - rate * t))

    def batch(self, progress):
        rate = self.rng.uniform(0.5, 2.0, (BATCH, 1))
        cap = self.rng.uniform(0.5, 1.5, (BATCH, 1))
        early_t = np.linspace(0.0, 0.4, OBS)[None]
        early = self.volume(rate, cap, early_t) + 0.01 * self.rng.standard_normal((BATCH, OBS))
        visit = float(self.rng.uniform(0.4, 0.8 + 2.8 * progress))
        target = self.volume(rate, cap, visit)[:, 0]
        return (torch.from_numpy(early.astype(np.float32)), visit,
                torch.from_numpy(target.astype(np.float32)))


def main():
    torch.manual_seed(SEED)
    device = xm.xla_device()
    cohort = Cohort(np.random.default_rng(SEED))

    model = GrowthModel().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=8e-3, total_steps=STEPS)
    xm.mark_step()

    smoothed = None
    for step in range(STEPS):
        early, visit, target = cohort.batch(step / STEPS)
        early, target = early.to(device), target.to(device)

        model.solver.nfe = 0
        pred = model(early, visit)
        loss = torch.nn.functional.huber_loss(pred, target, delta=0.5)

        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        xm.mark_step()

        value = loss.item()
        smoothed = value if smoothed is None else 0.9 * smoothed + 0.1 * value
        if step % 6 == 0 or step == STEPS - 1:
            print(f"step {step:3d} loss {smoothed:.4f} nfe {model.solver.nfe}")


if __name__ == "__main__":
    main()
