"""Double DQN for battery arbitrage on an hourly price signal, prioritized replay.

The simulator and the replay memory live on the host, both networks on the device.
"""
from __future__ import annotations

import math
import random
from collections import namedtuple

import numpy as np
import torch
from torch import nn
import torch_xla

HOURS = 24
ACTIONS = (-1.0, 0.0, 1.0)  # discharge, hold, charge (in units of `RATE`)
RATE = 0.25


class BatteryEnv:
    """Storage of capacity 1, reward is the trading profit minus a cycling fee."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.reset()

    def _observe(self) -> np.ndarray:
        phase = 2 * math.pi * self.hour / HOURS
        self.price = max(0.05, 1.0 - 0.5 * math.sin(phase) + 0.1 * self.rng.standard_normal())
        return np.array([self.charge, self.price, math.sin(phase), math.cos(phase)], np.float32)

    def reset(self) -> np.ndarray:
        self.hour, self.charge = int(self.rng.integers(HOURS)), 0.5
        self.left = 2 * HOURS
        return self._observe()

    def step(self, action: int) -> tuple[np.ndarray, float, bool]:
        before = self.charge
        self.charge = float(np.clip(before + ACTIONS[action] * RATE, 0.0, 1.0))
        moved = self.charge - before
        reward = -moved * self.price - 0.02 * abs(moved)
        self.hour = (self.hour + 1) % HOURS
        self.left -= 1
        return self._observe(), reward, self.left == 0


class Batch(namedtuple("Batch", "obs action reward next_obs done prob")):
    def to(self, device) -> "Batch":
        return Batch(*(t.to(device) for t in self))


class PrioritizedReplay:
    def __init__(self, capacity: int, rng: np.random.Generator, alpha: float = 0.6):
        self.capacity, self.alpha, self.rng = capacity, alpha, rng
        self.rows: list[tuple] = []
        self.priority = np.zeros(capacity, np.float64)
        self.cursor = 0

    def __len__(self):
        return len(self.rows)

    def add(self, *row):
        self.rows[self.cursor : self.cursor + 1] = [row]
        self.priority[self.cursor] = self.priority.max() or 1.0
        self.cursor = (self.cursor + 1) % self.capacity

    def sample(self, n: int) -> tuple[np.ndarray, Batch]:
        p = self.priority[: len(self)] ** self.alpha
        p /= p.sum()
        idx = self.rng.choice(len(self), n, p=p)
        cols = [np.stack(c) for c in zip(*(self.rows[i] for i in idx))]
        obs, action, reward, next_obs, done = map(torch.from_numpy, cols)
        prob = torch.from_numpy(p[idx]).float()
        return idx, Batch(obs, action, reward.float(), next_obs, done.float(), prob)

    def update(self, idx: np.ndarray, td: np.ndarray):
        self.priority[idx] = np.abs(td) + 1e-3


class Agent:
    def __init__(self, device, gamma=0.97, lr=2e-3, sync_every=10):
        def build():
            return nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, len(ACTIONS))).to(device)

        self.device, self.gamma, self.sync_every = device, gamma, sync_every
        self.online, self.target = build(), build()
        self.target.load_state_dict(self.online.state_dict())
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=lr)
        self.updates = 0

    @torch.no_grad()
    def act(self, obs: np.ndarray, epsilon: float) -> int:
        if random.random() < epsilon:
            return random.randrange(len(ACTIONS))
        return int(self.online(torch.from_numpy(obs).to(self.device)).argmax())

    def learn(self, batch: Batch, memory_size: int, beta: float) -> np.ndarray:
        with torch.no_grad():
            best = self.online(batch.next_obs).argmax(1, keepdim=True)
            bootstrap = self.target(batch.next_obs).gather(1, best).squeeze(1)
            goal = batch.reward + self.gamma * (1 - batch.done) * bootstrap
            weight = (memory_size * batch.prob).pow(-beta)
            weight = weight / weight.max()
        value = self.online(batch.obs).gather(1, batch.action.unsqueeze(1)).squeeze(1)
        td = value - goal
        loss = (weight * td.square()).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        torch_xla.sync()
        self.updates += 1
        if self.updates % self.sync_every == 0:
            self.target.load_state_dict(self.online.state_dict())
            torch_xla.sync()
        return td.detach().cpu().numpy()


def linear(start: float, end: float, fraction: float) -> float:
    return start + (end - start) * min(1.0, fraction)


def main(updates=48, warm=64, batch_size=32, train_every=4, seed=15):
    random.seed(seed)
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    env, memory = BatteryEnv(rng), PrioritizedReplay(512, rng)
    agent = Agent(torch_xla.device())
    obs, profit, tick = env.reset(), 0.0, 0

    while agent.updates < updates:
        done_frac = agent.updates / updates
        action = agent.act(obs, epsilon=linear(1.0, 0.1, 2 * done_frac))
        next_obs, reward, done = env.step(action)
        memory.add(obs, action, reward, next_obs, done)
        obs = env.reset() if done else next_obs
        profit += reward
        tick += 1
        if tick > warm and tick % train_every == 0:
            idx, batch = memory.sample(batch_size)
            td = agent.learn(batch.to(agent.device), len(memory), beta=linear(0.4, 1.0, done_frac))
            memory.update(idx, td)
        if done:
            print(f"tick {tick}: profit {profit:+.2f} after {agent.updates} updates")
            profit = 0.0


if __name__ == "__main__":
    main()
