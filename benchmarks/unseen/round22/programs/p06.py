#!/usr/bin/env python
"""Double DQN with prioritised replay on a vectorised point-mass environment. Everything
that is not a network runs in numpy on the host."""
from dataclasses import dataclass
import copy

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Args:
    num_envs: int = 8
    total_steps: int = 54
    learning_starts: int = 26
    buffer_size: int = 1024
    batch_size: int = 32
    gamma: float = 0.98
    alpha: float = 0.6
    beta_start: float = 0.4
    beta_end: float = 0.9
    eps_start: float = 1.0
    eps_end: float = 0.05
    target_every: int = 12
    learning_rate: float = 1e-3


class PointMass:
    def __init__(self, n, seed=0):
        self.rng = np.random.RandomState(seed)
        self.n = n
        self.state = self.rng.uniform(-1, 1, (n, 4)).astype(np.float32)

    def step(self, action):
        force = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], np.float32)[action]
        self.state[:, 2:] = 0.9 * self.state[:, 2:] + 0.1 * force
        self.state[:, :2] += 0.1 * self.state[:, 2:]
        dist = np.linalg.norm(self.state[:, :2], axis=1)
        done = (dist < 0.1) | (dist > 2.0)
        reward = np.where(dist < 0.1, 1.0, -0.1 * dist).astype(np.float32)
        nxt = self.state.copy()
        fresh = self.rng.uniform(-1, 1, (self.n, 4)).astype(np.float32)
        self.state = np.where(done[:, None], fresh, self.state)
        return nxt, reward, done.astype(np.float32)


class PrioritizedReplay:
    def __init__(self, size, alpha, rng):
        self.size, self.alpha, self.rng = size, alpha, rng
        self.items, self.prio, self.pos = [], np.zeros(size, np.float32), 0

    def add(self, *transition):
        if len(self.items) < self.size:
            self.items.append(transition)
        else:
            self.items[self.pos] = transition
        self.prio[self.pos] = self.prio.max() or 1.0
        self.pos = (self.pos + 1) % self.size

    def sample(self, n):
        p = self.prio[:len(self.items)] ** self.alpha
        p /= p.sum()
        idx = self.rng.choice(len(self.items), n, p=p)
        cols = zip(*(self.items[i] for i in idx))
        return idx, p[idx].astype(np.float32), [np.asarray(c) for c in cols]

    def update(self, idx, td):
        self.prio[idx] = np.abs(td) + 1e-3


class QNet(nn.Module):
    def __init__(self, obs=4, actions=5, hidden=24):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.adv, self.val = nn.Linear(hidden, actions), nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.body(x)
        a = self.adv(h)
        return self.val(h) + a - a.mean(1, keepdim=True)


def anneal(start, end, frac):
    return start + (end - start) * min(1.0, frac)


def main(args):
    torch.manual_seed(0)
    rng = np.random.RandomState(1)
    device = xm.xla_device()
    env = PointMass(args.num_envs)
    q = QNet().to(device)
    q_target = copy.deepcopy(q)
    opt = torch.optim.RMSprop(q.parameters(), lr=args.learning_rate)
    replay = PrioritizedReplay(args.buffer_size, args.alpha, rng)
    obs, losses = env.state.copy(), []

    for step in range(args.total_steps):
        frac = step / args.total_steps
        with torch.no_grad():
            values = q(torch.from_numpy(obs).to(device)).cpu().numpy()
        explore = rng.rand(args.num_envs) < anneal(args.eps_start, args.eps_end, 2 * frac)
        action = np.where(explore, rng.randint(0, 5, args.num_envs), values.argmax(1))
        nxt, rew, done = env.step(action)
        for row in zip(obs, action, rew, nxt, done):
            replay.add(*row)
        obs = env.state.copy()
        if step < args.learning_starts:
            continue

        idx, probs, cols = replay.sample(args.batch_size)
        s, a, r, s2, d = (torch.from_numpy(c).to(device) for c in cols)
        probs = torch.from_numpy(probs).to(device)
        beta = anneal(args.beta_start, args.beta_end, frac)
        weight = (float(args.buffer_size) * probs) ** (-beta)
        weight = weight / weight.max()
        with torch.no_grad():
            best = q(s2).argmax(1, keepdim=True)
            target = r + args.gamma * (1 - d) * q_target(s2).gather(1, best).squeeze(1)
        td = q(s).gather(1, a[:, None]).squeeze(1) - target
        loss = (weight * nn.functional.smooth_l1_loss(td, torch.zeros_like(td), reduction="none")).mean()
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        replay.update(idx, td.detach().cpu().numpy())
        losses.append(loss.item())
        if (step + 1) % args.target_every == 0:
            q_target.load_state_dict(q.state_dict())
            print(f"step {step + 1} beta {beta:.2f} loss {np.mean(losses[-12:]):.5f} reward {rew.mean():.3f}")


if __name__ == "__main__":
    main(Args())
