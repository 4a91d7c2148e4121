"""TD3 on a small point-mass task, trained on an XLA device.

The environment runs in numpy on the host; transitions are kept in a host side
buffer and only the sampled batches travel to the device.
"""
import copy
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 7
OBS, ACT = 4, 2
WARMUP = 48
STEPS = 60
BATCH = 32
POLICY_DELAY = 2
EVAL_EVERY = 15


class PointMass:
    """Push a unit mass to the origin; the episode ends after 25 moves."""

    def __init__(self, rng):
        self.rng = rng
        self.reset()

    def reset(self):
        self.pos = self.rng.uniform(-1, 1, 2)
        self.vel = np.zeros(2)
        self.t = 0
        return self.obs()

    def obs(self):
        return np.concatenate([self.pos, self.vel]).astype(np.float32)

    def step(self, action):
        self.vel = 0.9 * self.vel + 0.1 * np.clip(action, -1, 1)
        self.pos = np.clip(self.pos + self.vel, -2, 2)
        self.t += 1
        reward = -float(np.square(self.pos).sum())
        return self.obs(), reward, self.t >= 25


class Replay:
    def __init__(self, size):
        self.size, self.rows, self.at = size, [], 0

    def add(self, row):
        if len(self.rows) < self.size:
            self.rows.append(row)
        else:
            self.rows[self.at] = row
        self.at = (self.at + 1) % self.size

    def sample(self, n, device):
        picked = random.choices(self.rows, k=n)
        o, a, r, o2, d = (np.stack(x).astype(np.float32) for x in zip(*picked))
        return [torch.from_numpy(x).to(device) for x in (o, a, r, o2, d)]


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, o))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(OBS, ACT)

    def forward(self, o):
        return torch.tanh(self.net(o))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1, self.q2 = mlp(OBS + ACT, 1), mlp(OBS + ACT, 1)

    def forward(self, o, a):
        x = torch.cat([o, a], dim=-1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


def soft_update(target, source, tau=0.01):
    with torch.no_grad():
        for pt, ps in zip(target.parameters(), source.parameters()):
            pt.mul_(1 - tau).add_(ps, alpha=tau)


def act(actor, obs, device):
    with torch.no_grad():
        a = actor(torch.from_numpy(obs[None]).to(device))
    return a.cpu().numpy()[0]


def evaluate(actor, device):
    env = PointMass(np.random.default_rng(99))
    obs, total, done = env.reset(), 0.0, False
    while not done:
        obs, r, done = env.step(act(actor, obs, device))
        total += r
    return total


def main():
    random.seed(SEED)
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    device = torch_xla.device()

    actor, critic = Actor().to(device), Critic().to(device)
    actor_t, critic_t = copy.deepcopy(actor), copy.deepcopy(critic)
    opt_a = torch.optim.Adam(actor.parameters(), lr=1e-3)
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3)

    env, buf = PointMass(rng), Replay(1000)
    obs = env.reset()
    for _ in range(WARMUP):
        a = rng.uniform(-1, 1, ACT).astype(np.float32)
        nxt, r, done = env.step(a)
        buf.add((obs, a, np.float32(r), nxt, np.float32(done)))
        obs = env.reset() if done else nxt
    torch_xla.sync()

    for step in range(1, STEPS + 1):
        a = act(actor, obs, device) + rng.normal(0, 0.1, ACT)
        a = np.clip(a, -1, 1).astype(np.float32)
        nxt, r, done = env.step(a)
        buf.add((obs, a, np.float32(r), nxt, np.float32(done)))
        obs = env.reset() if done else nxt

        o, ac, rew, o2, d = buf.sample(BATCH, device)
        with torch.no_grad():
            noise = (torch.randn_like(ac) * 0.2).clamp(-0.5, 0.5)
            a2 = (actor_t(o2) + noise).clamp(-1, 1)
            q1t, q2t = critic_t(o2, a2)
            target = rew + 0.98 * (1 - d) * torch.minimum(q1t, q2t)
        q1, q2 = critic(o, ac)
        critic_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        opt_c.zero_grad()
        critic_loss.backward()
        opt_c.step()

        if step % POLICY_DELAY == 0:
            actor_loss = -critic(o, actor(o))[0].mean()
            opt_a.zero_grad()
            actor_loss.backward()
            opt_a.step()
            soft_update(actor_t, actor)
            soft_update(critic_t, critic)
        torch_xla.sync()

        if step % EVAL_EVERY == 0:
            ret = evaluate(actor, device)
            xm.master_print(f"step {step} critic {critic_loss.item():.4f} eval return {ret:.2f}")


if __name__ == "__main__":
    main()
