"""Neural surrogate for Burgers' equation, trained on rollouts of growing length."""
import math
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 19
GRID, DT, NU = 48, 0.01, 0.02
TRAJ, N_TRAIN, N_VALID = 24, 40, 8
BATCH, STEPS = 10, 60
CURRICULUM = [(0, 1), (6, 2), (12, 4)]
VALID_AT = (15, 30, 45, 60)


def initial_state(n, g):
    x = torch.arange(GRID) * (2 * math.pi / GRID)
    u = torch.zeros(n, GRID)
    for k in range(1, 4):
        amp = torch.randn(n, 1, generator=g) / k
        shift = 2 * math.pi * torch.rand(n, 1, generator=g)
        u += amp * torch.sin(k * x + shift)
    return u


def solve(u, n_steps, inner=10):
    """Explicit central-difference reference solver, periodic; returns (n, n_steps, GRID)."""
    dx = 2 * math.pi / GRID
    frames = [u]
    for _ in range(n_steps - 1):
        for _ in range(inner):
            up, um = torch.roll(u, -1, -1), torch.roll(u, 1, -1)
            flux = (up ** 2 - um ** 2) / (4 * dx)
            u = u + (DT / inner) * (NU * (up - 2 * u + um) / dx ** 2 - flux)
        frames.append(u)
    return torch.stack(frames, dim=1)


class PeriodicConv(nn.Module):
    def __init__(self, cin, cout, k):
        super().__init__()
        self.pad = k // 2
        self.conv = nn.Conv1d(cin, cout, k)

    def forward(self, x):
        x = torch.cat([x[..., -self.pad:], x, x[..., :self.pad]], dim=-1)
        return self.conv(x)


class Surrogate(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.lift = PeriodicConv(1, width, 5)
        self.body = PeriodicConv(width, width, 5)
        self.proj = nn.Conv1d(width, 1, 1)

    def forward(self, u):
        h = F.gelu(self.lift(u.unsqueeze(1)))
        h = h + F.gelu(self.body(h))
        return u + 0.1 * self.proj(h).squeeze(1)


def horizon_at(step):
    return [h for start, h in CURRICULUM if step >= start][-1]


def rollout_loss(model, window):
    """window: (batch, horizon + 1, GRID); the model sees its own predictions."""
    u = window[:, 0]
    loss = 0.0
    for k in range(1, window.size(1)):
        u = model(u)
        target = window[:, k]
        loss = loss + ((u - target).pow(2).mean(-1) / target.pow(2).mean(-1).clamp(min=1e-3)).mean()
    return loss / (window.size(1) - 1)


def sample_windows(traj, horizon, g):
    idx = torch.randint(0, traj.size(0), (BATCH, 1), generator=g)
    start = torch.randint(0, TRAJ - horizon, (BATCH, 1), generator=g)
    return traj[idx, start + torch.arange(horizon + 1)]


@torch.no_grad()
def full_rollout(model, traj, device):
    u = traj[:, 0].to(device)
    truth = traj.to(device).unbind(dim=1)
    error = torch.zeros((), device=device)
    torch_xla.sync()
    for target in truth[1:]:
        u = model(u)
        error += (u - target).pow(2).mean()
        torch_xla.sync()
    return (error.item() / (len(truth) - 1)) ** 0.5


def main():
    torch.manual_seed(SEED)
    g = torch.Generator().manual_seed(SEED)
    device = torch_xla.device()
    train = solve(initial_state(N_TRAIN, g), TRAJ)
    valid = solve(initial_state(N_VALID, g), TRAJ)

    model = Surrogate().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(STEPS):
        horizon = horizon_at(step)
        window = sample_windows(train, horizon, g).to(device)
        optimizer.zero_grad()
        loss = rollout_loss(model, window)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch_xla.sync()
        if step + 1 in VALID_AT:
            rmse = full_rollout(model, valid, device)
            print(f"step {step + 1} horizon {horizon} loss {loss.item():.5f} rmse {rmse:.4f}", flush=True)


if __name__ == "__main__":
    main()
