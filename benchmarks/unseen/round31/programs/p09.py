"""Neural surrogate for 1-D viscous Burgers: one-step training first, then longer unrolls, plus a spectral term."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

GRID = 48
DT_SUB = 40
HORIZON = 8
STAGES = ((0, 1), (18, 2), (34, 3))
SPECTRAL_EVERY = 4
VALID_EVERY = 9
STEPS = 70
BATCH = 8


def simulate(n, seed, nu=0.02):
    """Trajectories from a fine explicit scheme: array of n x (HORIZON + 1) x GRID."""
    rng = np.random.default_rng(seed)
    x = np.arange(GRID) / GRID
    dx, dt = 1.0 / GRID, 2.5e-4
    u = sum(rng.normal(0, 0.5, (n, 1)) * np.sin(2 * np.pi * (k * x[None] + rng.random((n, 1)))) for k in (1, 2, 3))
    out = [u]
    for _ in range(HORIZON):
        for _ in range(DT_SUB):
            left, right = np.roll(u, 1, 1), np.roll(u, -1, 1)
            flux = (right ** 2 - left ** 2) / (4 * dx)
            u = u - dt * flux + nu * dt * (right - 2 * u + left) / dx ** 2
        out.append(u)
    return np.stack(out, 1).astype(np.float32)


class Stepper(nn.Module):
    def __init__(self, c=12):
        super().__init__()
        self.lift = nn.Conv1d(1, c, 5, padding=2, padding_mode="circular")
        self.mid = nn.Conv1d(c, c, 5, padding=2, padding_mode="circular")
        self.drop = nn.Conv1d(c, 1, 1)

    def forward(self, u):
        h = torch.tanh(self.lift(u[:, None]))
        h = h + torch.tanh(self.mid(h))
        return u + self.drop(h)[:, 0]


def dft_basis(modes, device):
    k = torch.arange(1, modes + 1)[:, None] * torch.arange(GRID)[None]
    ang = 2 * math.pi * k / GRID
    return torch.cos(ang).to(device), torch.sin(ang).to(device)


def spectral_gap(pred, true, basis):
    def power(u):
        c, s = u @ basis[0].t(), u @ basis[1].t()
        return torch.log1p(c * c + s * s)

    return F.l1_loss(power(pred), power(true))


def unroll_length(step):
    return [n for start, n in STAGES if step >= start][-1]


def unrolled_loss(model, window, length):
    """Push-forward trick: only the last application is differentiated."""
    u = window[:, 0]
    with torch.no_grad():
        for _ in range(length - 1):
            u = model(u)
    pred = model(u)
    return pred, F.mse_loss(pred, window[:, length])


@torch.no_grad()
def rollout_error(model, traj):
    u = traj[0]
    err = torch.zeros((), device=u.device)
    for true in traj[1:]:
        u = model(u)
        err = err + (u - true).pow(2).mean().sqrt()
        torch_xla.sync()
    return (err / HORIZON).item()


def main():
    torch.manual_seed(17)
    rng = np.random.default_rng(17)
    device = torch_xla.device()
    train = simulate(48, 1)
    valid = [torch.from_numpy(u).to(device) for u in simulate(8, 2).swapaxes(0, 1).copy()]
    model = Stepper().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, [30, 50], gamma=0.4)
    basis = dft_basis(6, device)

    for step in range(STEPS):
        length = unroll_length(step)
        rows = rng.integers(0, len(train), BATCH)
        start = rng.integers(0, HORIZON - length + 1, BATCH)
        window = np.stack([train[r, s:s + length + 1] for r, s in zip(rows, start)])
        window = torch.from_numpy(window).to(device)

        pred, loss = unrolled_loss(model, window, length)
        if step % SPECTRAL_EVERY == 0:
            loss = loss + SPECTRAL_EVERY * 0.01 * spectral_gap(pred, window[:, length], basis)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        torch_xla.sync()

        if (step + 1) % VALID_EVERY == 0:
            model.eval()
            err = rollout_error(model, valid)
            model.train()
            print(f"step {step + 1} unroll {length} loss {loss.item():.5f} rollout rmse {err:.4f}")


if __name__ == "__main__":
    main()
