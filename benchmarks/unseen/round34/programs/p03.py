"""Online identification of a damped, driven oscillator.

A known integrator carries the state, a small network supplies the unknown
friction force. Every observation window gives one gradient step.
"""
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla


DT = 0.08
SUBSTEPS = 2


def simulate_truth(n_traj, n_windows, seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n_traj)
    v = rng.uniform(-0.5, 0.5, n_traj)
    out = [np.stack([x, v], -1)]
    t = 0.0
    for _ in range(n_windows):
        for _ in range(SUBSTEPS):
            f = 0.6 * math.sin(1.3 * t)
            a = -2.1 * x - 0.25 * v - 0.1 * np.tanh(8 * v) + f
            v = v + DT * a
            x = x + DT * v
            t += DT
        obs = np.stack([x, v], -1) + rng.normal(0, 0.01, (n_traj, 2))
        out.append(obs)
    return np.stack(out).astype(np.float32)


class Friction(nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, 1))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x, v):
        return self.net(torch.stack([x, v], -1)).squeeze(-1)


class Oscillator(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_k = nn.Parameter(torch.tensor(0.0))
        self.friction = Friction()

    def substep(self, x, v, drive):
        a = -self.log_k.exp() * x + self.friction(x, v) + drive
        v = v + DT * a
        x = x + DT * v
        return x, v

    def window(self, state, drives):
        x, v = state
        for i in range(SUBSTEPS):
            x, v = self.substep(x, v, drives[i])
        return x, v


class Momentum:
    """Heavy-ball update on raw tensors, with a per-tensor norm cap."""

    def __init__(self, params, lr, beta=0.8, cap=1.0):
        self.params = list(params)
        self.lr, self.beta, self.cap = lr, beta, cap
        self.buf = [torch.zeros_like(p.data) for p in self.params]

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def step(self):
        for p, b in zip(self.params, self.buf):
            g = p.grad.data
            g = g * (self.cap / g.norm().clamp(min=self.cap))
            b.mul_(self.beta).add_(g)
            p.data.add_(b, alpha=-self.lr)


def drive_table(n_windows):
    t = np.arange(n_windows * SUBSTEPS) * DT
    return (0.6 * np.sin(1.3 * t)).astype(np.float32).reshape(n_windows, SUBSTEPS)


def nudge(state, obs, gain):
    """Observer correction: pull the simulated state towards the measurement."""
    x, v = state
    return x + gain * (obs[:, 0] - x), v + gain * (obs[:, 1] - v)


def main(n_traj=16, n_windows=18, seed=3):
    torch.manual_seed(seed)
    device = torch_xla.device()
    truth = simulate_truth(n_traj, n_windows, seed)
    drives = drive_table(n_windows)

    model = Oscillator().to(device)
    opt = Momentum(model.parameters(), lr=0.05)
    scale = torch.tensor([1.0, 0.7], device=device)

    first = torch.from_numpy(truth[0]).to(device)
    state = (first[:, 0].clone(), first[:, 1].clone())
    log = []
    for step in range(n_windows):
        obs = torch.from_numpy(truth[step + 1]).to(device)
        u = torch.from_numpy(drives[step]).to(device)

        state = model.window(state, u)
        pred = torch.stack(state, -1)
        residual = (pred - obs) / scale
        loss = residual.square().mean() + 1e-3 * model.log_k.square()

        opt.zero_grad()
        loss.backward(retain_graph=True)
        opt.step()
        state = nudge(state, obs, gain=0.3)
        torch_xla.sync()

        log.append(loss.detach())
        if (step + 1) % 6 == 0:
            recent = np.mean([v.item() for v in log[-6:]])
            print(f"window {step + 1:3d} residual {recent:.5f} "
                  f"k {math.exp(model.log_k.item()):.3f}")

    with torch.no_grad():
        x, v = first[:, 0], first[:, 1]
        err = torch.zeros((), device=device)
        for step in range(5):
            u = torch.from_numpy(drives[step]).to(device)
            x, v = model.window((x, v), u)
            err = err + (x - torch.from_numpy(truth[step + 1]).to(device)[:, 0]).abs().mean()
            torch_xla.sync()
        print(f"open-loop position error over 5 windows {err.item() / 5:.4f}")


if __name__ == "__main__":
    main()
