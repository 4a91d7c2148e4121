"""Inventory control with prioritized replay: a double DQN that decides how many
crates to reorder. Replay storage and priorities live on the device."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import copy
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 606
CAPACITY = 512
ENVS = 16
BATCH = 32
UPDATES = 45
ACTIONS = 5
OBS = 6


class Warehouse:
    """Vectorised single-item store with seasonal demand and a two-day lead time."""

    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.stock = rng.integers(2, 10, size=n).astype(np.float32)
        self.pipeline = np.zeros((n, 2), np.float32)
        self.day = rng.integers(0, 28, size=n)

    def observe(self):
        phase = 2 * np.pi * self.day / 28
        cols = [self.stock / 10, self.pipeline[:, 0] / 4, self.pipeline[:, 1] / 4]
        cols += [np.sin(phase), np.cos(phase), (self.stock < 1).astype(np.float32)]
        return np.stack(cols, axis=1).astype(np.float32)

    def step(self, action):
        self.stock += self.pipeline[:, 0]
        self.pipeline[:, 0] = self.pipeline[:, 1]
        self.pipeline[:, 1] = action
        rate = 2.0 + 1.2 * np.sin(2 * np.pi * self.day / 28)
        demand = self.rng.poisson(rate).astype(np.float32)
        sold = np.minimum(self.stock, demand)
        self.stock = np.minimum(self.stock - sold, 20.0)
        self.day = (self.day + 1) % 28
        reward = sold - 0.1 * self.stock - 0.5 * (demand - sold) - 0.2 * (action > 0)
        return reward.astype(np.float32)


class PrioritizedReplay:
    def __init__(self, device, alpha=0.6):
        self.obs = torch.zeros(CAPACITY, OBS, device=device)
        self.next_obs = torch.zeros(CAPACITY, OBS, device=device)
        self.action = torch.zeros(CAPACITY, dtype=torch.long, device=device)
        self.reward = torch.zeros(CAPACITY, device=device)
        self.priority = torch.zeros(CAPACITY, device=device)
        self.alpha = alpha
        self.cursor = 0
        self.device = device

    def add(self, obs, action, reward, next_obs):
        where = torch.from_numpy((self.cursor + np.arange(ENVS)) % CAPACITY).to(self.device)
        self.obs = self.obs.index_copy(0, where, torch.from_numpy(obs).to(self.device))
        self.next_obs = self.next_obs.index_copy(0, where, torch.from_numpy(next_obs).to(self.device))
        self.action = self.action.index_copy(0, where, torch.from_numpy(action).to(self.device))
        self.reward = self.reward.index_copy(0, where, torch.from_numpy(reward).to(self.device))
        fresh = self.priority.max().clamp(min=1.0).expand(ENVS)
        self.priority = self.priority.index_copy(0, where, fresh)
        self.cursor = (self.cursor + ENVS) % CAPACITY

    def sample(self, beta):
        mass = self.priority**self.alpha
        prob = mass / mass.sum()
        cdf = prob.cumsum(0)
        u = torch.rand(BATCH, 1, device=self.device)
        idx = (cdf.unsqueeze(0) < u).sum(1).clamp(max=CAPACITY - 1)
        weight = (CAPACITY * prob[idx] + 1e-8) ** (-beta)
        return idx, weight / weight.max()

    def update(self, idx, td):
        self.priority = self.priority.index_copy(0, idx, td.abs() + 1e-3)


def linear(start, end, frac):
    return start + (end - start) * min(1.0, frac)


def main():
    random.seed(SEED)
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    device = torch_xla.device()

    online = nn.Sequential(nn.Linear(OBS, 32), nn.ReLU(), nn.Linear(32, ACTIONS)).to(device)
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    replay = PrioritizedReplay(device)
    env = Warehouse(ENVS, rng)

    obs = env.observe()
    for _ in range(8):
        action = rng.integers(0, ACTIONS, size=ENVS)
        reward = env.step(action)
        replay.add(obs, action, reward, env.observe())
        obs = env.observe()
        xm.mark_step()

    for update in range(UPDATES):
        frac = update / UPDATES
        with torch.no_grad():
            greedy = online(torch.from_numpy(obs).to(device)).argmax(-1)
        action = greedy.cpu().numpy()
        explore = rng.random(ENVS) < linear(0.5, 0.05, frac)
        action = np.where(explore, rng.integers(0, ACTIONS, size=ENVS), action)
        reward = env.step(action)
        replay.add(obs, action, reward, env.observe())
        obs = env.observe()
        xm.mark_step()

        idx, weight = replay.sample(linear(0.4, 1.0, frac))
        q = online(replay.obs[idx]).gather(1, replay.action[idx, None]).squeeze(1)
        with torch.no_grad():
            best = online(replay.next_obs[idx]).argmax(-1, keepdim=True)
            boot = target(replay.next_obs[idx]).gather(1, best).squeeze(1)
            goal = replay.reward[idx] + 0.95 * boot
        loss = (weight * F.smooth_l1_loss(q, goal, reduction="none")).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        replay.update(idx, (goal - q).detach())
        with torch.no_grad():
            for p_t, p_o in zip(target.parameters(), online.parameters()):
                p_t.lerp_(p_o, 0.05)
        xm.mark_step()

        if (update + 1) % 15 == 0:
            print(f"update {update + 1:2d}  td loss {loss.item():.4f}  reward {reward.mean():.2f}")


if __name__ == "__main__":
    main()
