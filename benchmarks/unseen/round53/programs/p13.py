"""Double DQN with prioritized replay on a small grid-world, replay kept on device."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 13
N_ENVS = 8
GRID = 6
N_ACTIONS = 4
CAPACITY = 512
BATCH = 64
GAMMA = 0.97
TOTAL_STEPS = 36
LEARN_START = 6
TARGET_EVERY = 10


class GridWorld:
    """Vectorised: reach the goal cell, -0.02 per move, +1 at the goal."""

    def __init__(self, n, size, rng):
        self.n, self.size, self.rng = n, size, rng
        self.moves = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])
        self.agent = rng.integers(0, size, (n, 2))
        self.goal = rng.integers(0, size, (n, 2))

    def observe(self):
        both = np.concatenate([self.agent, self.goal, self.goal - self.agent], axis=1)
        return (both / self.size).astype(np.float32)

    def step(self, action):
        self.agent = np.clip(self.agent + self.moves[action], 0, self.size - 1)
        done = (self.agent == self.goal).all(1)
        reward = np.where(done, 1.0, -0.02).astype(np.float32)
        for i in np.flatnonzero(done):
            self.agent[i] = self.rng.integers(0, self.size, 2)
            self.goal[i] = self.rng.integers(0, self.size, 2)
        return self.observe(), reward, done.astype(np.float32)


class DuelingQ(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden=32):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(obs_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        )
        self.value = nn.Linear(hidden, 1)
        self.adv = nn.Linear(hidden, n_actions)

    def forward(self, x):
        h = self.trunk(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(-1, keepdim=True)


class PrioritizedReplay:
    def __init__(self, capacity, obs_dim, device, alpha=0.6):
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.next_obs = torch.zeros(capacity, obs_dim, device=device)
        self.act = torch.zeros(capacity, dtype=torch.long, device=device)
        self.rew = torch.zeros(capacity, device=device)
        self.done = torch.zeros(capacity, device=device)
        self.prio = torch.zeros(capacity, device=device)
        self.capacity, self.alpha, self.ptr = capacity, alpha, 0

    def add(self, obs, act, rew, next_obs, done):
        n = obs.shape[0]
        rows = slice(self.ptr, self.ptr + n)
        self.obs[rows] = obs
        self.act[rows] = act
        self.rew[rows] = rew
        self.next_obs[rows] = next_obs
        self.done[rows] = done
        self.prio[rows] = 1.0
        self.ptr = (self.ptr + n) % self.capacity

    def sample(self, batch, beta):
        p = self.prio.pow(self.alpha)
        p = p / p.sum()
        cdf = torch.cumsum(p, 0)
        u = torch.rand(batch, device=p.device)
        idx = torch.searchsorted(cdf, u).clamp(max=self.capacity - 1)
        w = (p[idx] * self.capacity + 1e-8).pow(-beta)
        w = w / w.max()
        batch = (self.obs, self.act, self.rew, self.next_obs, self.done)
        return idx, w, [t[idx] for t in batch]

    def update(self, idx, td):
        self.prio[idx] = td.abs() + 1e-3


def linear(start, end, step, total):
    return start + (end - start) * min(1.0, step / total)


def td_error(online, target, obs, act, rew, next_obs, done):
    q = online(obs).gather(1, act[:, None]).squeeze(1)
    with torch.no_grad():
        best = online(next_obs).argmax(1, keepdim=True)
        boot = target(next_obs).gather(1, best).squeeze(1)
        goal = rew + GAMMA * (1.0 - done) * boot
    return q, goal


def main():
    random.seed(SEED)
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    device = torch_xla.device()

    env = GridWorld(N_ENVS, GRID, rng)
    online = DuelingQ(6, N_ACTIONS).to(device)
    target = DuelingQ(6, N_ACTIONS).to(device)
    target.load_state_dict(online.state_dict())
    opt = torch.optim.Adam(online.parameters(), lr=1e-3)
    replay = PrioritizedReplay(CAPACITY, 6, device)
    torch_xla.sync()

    obs, returns = env.observe(), 0.0
    for step in range(TOTAL_STEPS):
        with torch.no_grad():
            greedy = online(torch.from_numpy(obs).to(device)).argmax(1).cpu().numpy()
        explore = rng.random(N_ENVS) < linear(1.0, 0.1, step, TOTAL_STEPS)
        action = np.where(explore, rng.integers(0, N_ACTIONS, N_ENVS), greedy)
        next_obs, rew, done = env.step(action)
        returns += rew.mean()
        batch = (obs, action, rew, next_obs, done)
        replay.add(*(torch.from_numpy(b).to(device) for b in batch))
        obs = next_obs

        if step >= LEARN_START:
            idx, w, batch = replay.sample(BATCH, beta=linear(0.4, 1.0, step, TOTAL_STEPS))
            q, goal = td_error(online, target, *batch)
            loss = (w * F.smooth_l1_loss(q, goal, reduction="none")).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            replay.update(idx, (goal - q).detach())
        if step % TARGET_EVERY == 0:
            target.load_state_dict(online.state_dict())
        torch_xla.sync()
        if step > LEARN_START and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} mean return {returns:.3f}")


if __name__ == "__main__":
    main()
