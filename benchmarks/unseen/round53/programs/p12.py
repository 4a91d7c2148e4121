"""Forward-dynamics model of a 3-joint arm, learned from noisy teleoperation logs.

Part of the transitions are corrupted (dropped encoder packets); the loss is a
least-trimmed-squares one, and more of the outliers are left out as the model
becomes trustworthy.  An ensemble gives the planner its uncertainty.
"""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


def arm_step(q, dq, tau, dt=0.05):
    """Crude three-link arm: coupled damping, gravity term and joint limits."""
    inertia = np.array([1.2, 0.8, 0.4])
    gravity = np.stack(
        [np.sin(q[:, 0]), np.sin(q[:, 0] + q[:, 1]), np.sin(q.sum(1))], axis=1
    )
    coupling = 0.2 * np.roll(dq, 1, axis=1)
    ddq = (tau - 0.3 * dq - coupling - gravity) / inertia
    dq = np.clip(dq + dt * ddq, -4, 4)
    return np.clip(q + dt * dq, -np.pi, np.pi), dq


def collect(n_traj, horizon, rng, corrupt=0.15):
    q = rng.uniform(-1, 1, (n_traj, 3))
    dq = np.zeros((n_traj, 3))
    obs, act, delta = [], [], []
    for _ in range(horizon):
        tau = rng.normal(0, 1.5, (n_traj, 3))
        nq, ndq = arm_step(q, dq, tau)
        obs.append(np.concatenate([q, dq], axis=1))
        act.append(tau)
        delta.append(np.concatenate([nq - q, ndq - dq], axis=1))
        q, dq = nq, ndq
    obs, act, delta = (np.concatenate(a).astype(np.float32) for a in (obs, act, delta))
    bad = rng.random(len(delta)) < corrupt
    delta[bad] += rng.normal(0, 3.0, delta[bad].shape)
    return obs, act, delta.astype(np.float32)


class EnsembleLinear(nn.Module):
    def __init__(self, members, d_in, d_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(members, d_in, d_out) / d_in**0.5)
        self.bias = nn.Parameter(torch.zeros(members, 1, d_out))

    def forward(self, x):
        return torch.baddbmm(self.bias, x, self.weight)


class DynamicsEnsemble(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden=24, members=2):
        super().__init__()
        self.members = members
        self.fc1 = EnsembleLinear(members, obs_dim + act_dim, hidden)
        self.fc2 = EnsembleLinear(members, hidden, hidden)
        self.out = EnsembleLinear(members, hidden, obs_dim)

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1).expand(self.members, -1, -1)
        x = F.silu(self.fc1(x))
        x = F.silu(self.fc2(x))
        return self.out(x)


class TrimmedLoss:
    """Mean over the best-fitted transitions, the kept share going from 1 to final."""

    def __init__(self, final_keep, ramp_steps):
        self.final_keep = final_keep
        self.ramp_steps = ramp_steps

    def keep_ratio(self, step):
        frac = min(1.0, step / self.ramp_steps)
        return 1.0 - frac * (1.0 - self.final_keep)

    def __call__(self, pred, target, step):
        err = F.smooth_l1_loss(pred, target.expand_as(pred), reduction="none").mean(-1)
        keep = max(1, int(err.shape[-1] * self.keep_ratio(step)))
        kept = torch.topk(err, keep, dim=-1, largest=False).values
        return kept.mean(), err.detach().mean()


def iterate(data, batch, rng):
    n = len(data[0])
    while True:
        perm = rng.permutation(n)
        for i in range(0, n - batch + 1, batch):
            idx = perm[i : i + batch]
            yield tuple(torch.from_numpy(a[idx]) for a in data)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=30)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--final-keep", type=float, default=0.8)
    ap.add_argument("--seed", type=int, default=12)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    device = torch_xla.device()

    obs, act, delta = collect(n_traj=64, horizon=50, rng=rng)
    scale = np.abs(delta).mean(0, keepdims=True) + 1e-6
    loader = iterate((obs, act, delta / scale), args.batch, rng)

    model = DynamicsEnsemble(6, 3).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    criterion = TrimmedLoss(args.final_keep, ramp_steps=args.steps)

    for step in range(args.steps):
        o, a, d = (t.to(device) for t in next(loader))
        loss, raw = criterion(model(o, a), d, step)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        xm.mark_step()
        if (step + 1) % 10 == 0:
            print(
                f"[{step + 1:03d}] trimmed {loss.item():.4f} raw {raw.item():.4f} "
                f"keep {criterion.keep_ratio(step):.2f}"
            )


if __name__ == "__main__":
    main()
