"""Learned simulator for a damped chain of masses and springs.

A residual network predicts accelerations; it is trained through its own
rollouts so that errors do not pile up at inference time.
"""
import argparse
import time

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


def true_acceleration(pos, vel, k=4.0, damping=0.15):
    left = torch.cat([torch.zeros_like(pos[:, :1]), pos[:, :-1]], dim=1)
    right = torch.cat([pos[:, 1:], torch.zeros_like(pos[:, :1])], dim=1)
    return k * (left - 2 * pos + right) - 0.5 * k * pos.pow(3) - damping * vel


def simulate(batch, masses, frames, dt, gen, substeps=4):
    pos = 0.6 * torch.randn(batch, masses, generator=gen)
    vel = 0.3 * torch.randn(batch, masses, generator=gen)
    out = [torch.stack([pos, vel], dim=-1)]
    h = dt / substeps
    for _ in range(frames - 1):
        for _ in range(substeps):
            vel = vel + h * true_acceleration(pos, vel)
            pos = pos + h * vel
        out.append(torch.stack([pos, vel], dim=-1))
    return torch.stack(out, dim=1)


class ChainNet(nn.Module):
    """Acceleration of each mass from its own state and that of its two neighbours."""

    def __init__(self, width=24):
        super().__init__()
        self.inp = nn.Linear(6, width)
        self.out = nn.Linear(width, 1)
        nn.init.zeros_(self.out.bias)

    def forward(self, state):
        wall = torch.zeros_like(state[:, :1])
        left = torch.cat([wall, state[:, :-1]], dim=1)
        right = torch.cat([state[:, 1:], wall], dim=1)
        x = torch.cat([left, state, right], dim=-1)
        return self.out(torch.tanh(self.inp(x))).squeeze(-1)


class Simulator(nn.Module):
    def __init__(self, net, dt):
        super().__init__()
        self.net, self.dt = net, dt

    def step(self, state):
        pos, vel = state.unbind(-1)
        vel = vel + self.dt * self.net(state)
        pos = pos + self.dt * vel
        return torch.stack([pos, vel], dim=-1)

    def rollout(self, state, length):
        frames = []
        for _ in range(length):
            state = self.step(state)
            frames.append(state)
        return torch.stack(frames, dim=1)


class Curriculum:
    """How far ahead the model is asked to look at a given point of training."""

    def __init__(self, shortest, longest, total, power=1.0):
        self.shortest, self.longest = shortest, longest
        self.total, self.power = total, power

    def horizon(self, step):
        frac = min(1.0, step / self.total) ** self.power
        return self.shortest + int(frac * (self.longest - self.shortest))


def rollout_loss(sim, clip, horizon):
    pred = sim.rollout(clip[:, 0], horizon)
    err = (pred - clip[:, 1:horizon + 1]).square().mean(dim=(0, 2, 3))
    return err.mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=32)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--masses", type=int, default=8)
    ap.add_argument("--max-horizon", type=int, default=14)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--seed", type=int, default=21)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    dt = 0.08
    clips = simulate(128, args.masses, args.max_horizon + 1, dt, gen)
    scale = clips.std(dim=(0, 1, 2), keepdim=True)
    clips = clips / scale

    device = torch_xla.device()
    sim = Simulator(ChainNet(), dt).to(device)
    opt = torch.optim.AdamW(sim.parameters(), lr=args.lr, weight_decay=1e-4)
    curriculum = Curriculum(2, args.max_horizon, args.steps)
    order = torch.randperm(clips.size(0), generator=gen)
    cursor, started = 0, time.time()
    xm.mark_step()

    for step in range(args.steps):
        if cursor + args.batch > clips.size(0):
            order = torch.randperm(clips.size(0), generator=gen)
            cursor = 0
        clip = clips[order[cursor:cursor + args.batch]].to(device)
        cursor += args.batch

        horizon = curriculum.horizon(step)
        opt.zero_grad()
        loss = rollout_loss(sim, clip, horizon)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(sim.parameters(), 1.0)
        opt.step()
        xm.mark_step()

        if step % 8 == 0 or step == args.steps - 1:
            print(f"step {step:3d}  horizon {horizon:2d}  mse {loss.item():.5f}  "
                  f"{time.time() - started:.1f}s")


if __name__ == "__main__":
    main()
