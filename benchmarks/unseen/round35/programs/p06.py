"""Neural ODE fitted to noisy rotor trajectories with a growing forecast window."""
import argparse
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def rotor_data(count, times, seed):
    """Van der Pol-like oscillators sampled on a common fine time grid."""
    rng = np.random.default_rng(seed)
    state = rng.uniform(-2.0, 2.0, (count, 2))
    mu = 1.5
    out = [state.copy()]
    for dt in np.diff(times):
        for _ in range(10):
            x, v = state[:, 0], state[:, 1]
            state = state + dt / 10 * np.stack([v, mu * (1 - x ** 2) * v - x], axis=1)
        out.append(state.copy())
    path = np.stack(out, axis=1)
    return (path + rng.normal(0, 0.02, path.shape)).astype(np.float32)


class VectorField(nn.Module):
    def __init__(self, dim=2, width=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, width), nn.Tanh(), nn.Linear(width, dim))

    def forward(self, y):
        return self.net(y)


class HeunEuler:
    """Embedded 2(1) pair with a proportional step controller."""

    def __init__(self, rtol, atol, first_step=0.1, safety=0.9, min_factor=0.3, max_factor=2.0):
        self.rtol, self.atol = rtol, atol
        self.first_step, self.safety = first_step, safety
        self.min_factor, self.max_factor = min_factor, max_factor
        self.accepted = self.rejected = 0

    def error_ratio(self, y, proposal, error):
        scale = self.atol + self.rtol * torch.maximum(y.abs(), proposal.abs())
        return (error / scale).pow(2).mean().sqrt()

    def integrate(self, field, y, t_end):
        t, h = 0.0, self.first_step
        slope = field(y)
        while t < t_end - 1e-9:
            h = min(h, t_end - t)
            euler = y + h * slope
            end_slope = field(euler)
            proposal = y + 0.5 * h * (slope + end_slope)
            ratio = self.error_ratio(y, proposal, proposal - euler).item()
            if ratio <= 1.0:
                t += h
                y, slope = proposal, field(proposal)
                self.accepted += 1
            else:
                self.rejected += 1
            factor = self.safety * max(ratio, 1e-6) ** -0.5
            h = h * min(self.max_factor, max(self.min_factor, factor))
        return y


def sample_batch(paths, grid_step, window, batch_size, rng, device):
    span = int(round(window / grid_step))
    rows = rng.integers(0, paths.shape[0], batch_size)
    starts = rng.integers(0, paths.shape[1] - span, batch_size)
    y0 = torch.from_numpy(paths[rows, starts]).to(device)
    y1 = torch.from_numpy(paths[rows, starts + span]).to(device)
    return y0, y1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--window-start", type=float, default=0.1)
    parser.add_argument("--window-end", type=float, default=1.3)
    parser.add_argument("--rtol", type=float, default=5e-3)
    parser.add_argument("--atol", type=float, default=5e-3)
    parser.add_argument("--lr", type=float, default=1e-2)
    parser.add_argument("--log-every", type=int, default=8)
    parser.add_argument("--seed", type=int, default=21)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    device = torch_xla.device()
    grid_step = 0.05
    paths = rotor_data(48, np.arange(0.0, 6.0, grid_step), args.seed)

    field = VectorField().to(device)
    solver = HeunEuler(args.rtol, args.atol)
    optimizer = torch.optim.Adam(field.parameters(), lr=args.lr)
    decay = torch.optim.lr_scheduler.StepLR(optimizer, step_size=15, gamma=0.7)

    for step in range(1, args.steps + 1):
        progress = (step - 1) / max(args.steps - 1, 1)
        window = args.window_start + progress * (args.window_end - args.window_start)
        window = round(window / grid_step) * grid_step
        y0, y1 = sample_batch(paths, grid_step, window, args.batch_size, rng, device)

        prediction = solver.integrate(field, y0, window)
        loss = F.smooth_l1_loss(prediction, y1)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(field.parameters(), 1.0)
        optimizer.step()
        decay.step()
        torch_xla.sync()

        if step % args.log_every == 0:
            print(
                f"step {step:3d}  window {window:.2f}  loss {loss.item():.5f}  "
                f"solver steps {solver.accepted} (+{solver.rejected} rejected)"
            )
            solver.accepted = solver.rejected = 0


if __name__ == "__main__":
    main()
