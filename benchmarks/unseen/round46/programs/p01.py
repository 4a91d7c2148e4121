"""Neural ODE for drug concentration curves.

Each study arm follows its own sampling protocol: all patients of an arm are
measured at the same hours, but the hours differ from arm to arm.
"""
import argparse
import math
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Arm:
    times: np.ndarray      # (n_obs,) hours, ascending
    dose: torch.Tensor     # (patients, 1)
    covariates: torch.Tensor  # (patients, n_cov)
    conc: torch.Tensor     # (patients, n_obs, 2) central and peripheral


def simulate_arm(rng, patients=16, n_obs=2, n_cov=4):
    times = np.sort(rng.uniform(0.3, 4.0, size=n_obs)).round(2)
    cov = rng.normal(size=(patients, n_cov)).astype(np.float32)
    dose = rng.uniform(0.5, 1.5, size=(patients, 1)).astype(np.float32)
    ke = 0.5 * np.exp(0.2 * cov[:, :1])
    k12 = 0.3 * np.exp(0.1 * cov[:, 1:2])
    k21 = 0.2
    out = np.zeros((patients, n_obs, 2), dtype=np.float32)
    c, p, t = dose.copy(), np.zeros_like(dose), 0.0
    for j, stop in enumerate(times):
        n = max(1, int((stop - t) / 0.01))
        h = (stop - t) / n
        for _ in range(n):
            dc = -ke * c - k12 * c + k21 * p
            dp = k12 * c - k21 * p
            c, p = c + h * dc, p + h * dp
        t = stop
        out[:, j, 0], out[:, j, 1] = c[:, 0], p[:, 0]
    out += 0.01 * rng.normal(size=out.shape)
    return Arm(times, torch.from_numpy(dose), torch.from_numpy(cov),
               torch.from_numpy(out.astype(np.float32)))


class Dynamics(nn.Module):
    def __init__(self, n_cov, hidden=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2 + n_cov, hidden), nn.Tanh(),
            nn.Linear(hidden, 2),
        )

    def forward(self, state, cov):
        return self.net(torch.cat([state, cov], dim=-1))


def midpoint(func, state, cov, t0, t1, max_step):
    n_steps = max(1, math.ceil((t1 - t0) / max_step))
    h = (t1 - t0) / n_steps
    for _ in range(n_steps):
        k1 = func(state, cov)
        k2 = func(state + 0.5 * h * k1, cov)
        state = state + h * k2
    return state


class PKModel(nn.Module):
    def __init__(self, n_cov, max_step):
        super().__init__()
        self.dynamics = Dynamics(n_cov)
        self.absorb = nn.Linear(n_cov, 1)
        self.max_step = max_step

    def forward(self, dose, cov, times):
        bioavail = torch.sigmoid(self.absorb(cov) + 2.0)
        state = torch.cat([dose * bioavail, torch.zeros_like(dose)], dim=-1)
        preds, t = [], 0.0
        for stop in times:
            state = midpoint(self.dynamics, state, cov, t, stop, self.max_step)
            preds.append(state)
            t = stop
        return torch.stack(preds, dim=1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=20)
    ap.add_argument("--arms", type=int, default=48)
    ap.add_argument("--max-step", type=float, default=0.5)
    ap.add_argument("--lr", type=float, default=5e-3)
    ap.add_argument("--seed", type=int, default=11)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    arms = [simulate_arm(rng) for _ in range(args.arms)]

    device = torch_xla.device()
    model = PKModel(n_cov=4, max_step=args.max_step).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)
    order = rng.permutation(len(arms))
    started = time.time()

    for step in range(args.steps):
        arm = arms[order[step % len(order)]]
        dose = arm.dose.to(device)
        cov = arm.covariates.to(device)
        target = arm.conc.to(device)

        pred = model(dose, cov, arm.times.tolist())
        # log-ish weighting, late low concentrations should matter as well
        weight = 1.0 / (target.abs() + 0.1)
        loss = (weight * (pred - target).pow(2)).mean()

        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        xm.optimizer_step(opt, barrier=False)
        sched.step()
        torch_xla.sync()

        if step % 5 == 0 or step == args.steps - 1:
            print(f"step {step:3d}  loss {loss.item():.4f}  "
                  f"lr {sched.get_last_lr()[0]:.2e}  {time.time() - started:.1f}s")


if __name__ == "__main__":
    main()
