"""Reservoir operation: double DQN with prioritised replay for the release gates of a dam."""
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch_xla

GATES = 5
OBS = 6


class Dam:
    """Daily water balance with seasonal inflow; reward for power, penalties for spill and drought."""

    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.volume = rng.uniform(0.3, 0.8, n)
        self.day = rng.integers(0, 365, n)
        self.inflow = np.full(n, 0.02)

    def observe(self):
        a = 2 * np.pi * self.day / 365
        return np.stack([
            self.volume, self.inflow * 20, np.sin(a), np.cos(a), self.volume ** 2, np.ones(self.n),
        ], 1).astype(np.float32)

    def step(self, gate):
        season = 0.02 + 0.015 * np.sin(2 * np.pi * self.day / 365)
        self.inflow = 0.7 * self.inflow + 0.3 * season * self.rng.lognormal(0, 0.5, self.n)
        release = np.minimum(gate * 0.012, self.volume)
        level = self.volume + self.inflow - release
        spill, dry = np.maximum(level - 1, 0), np.maximum(0.15 - level, 0)
        reward = 10 * release * np.sqrt(self.volume) - 20 * spill - 15 * dry
        self.volume = np.clip(level, 0.01, 1.0)
        self.day = (self.day + 1) % 365
        return reward.astype(np.float32)


class Replay:
    def __init__(self, capacity, device):
        self.obs = torch.zeros(capacity, OBS, device=device)
        self.nxt = torch.zeros(capacity, OBS, device=device)
        self.act = torch.zeros(capacity, dtype=torch.long, device=device)
        self.rew = torch.zeros(capacity, device=device)
        self.prio = torch.zeros(capacity, device=device)
        self.capacity, self.head, self.size = capacity, 0, 0

    def add(self, obs, act, rew, nxt):
        n = obs.shape[0]
        rows = slice(self.head, self.head + n)
        self.obs[rows] = obs
        self.nxt[rows] = nxt
        self.act[rows] = act
        self.rew[rows] = rew
        self.prio[rows] = torch.maximum(self.prio.max(), torch.ones_like(rew))
        self.head = (self.head + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, batch):
        weight = self.prio[:self.size].sqrt()
        idx = torch.multinomial(weight, batch, replacement=True)
        chance = weight[idx] / weight.sum()
        importance = (chance * self.capacity).rsqrt()
        picked = self.obs[idx], self.act[idx], self.rew[idx], self.nxt[idx]
        return idx, importance / importance.max(), picked

    def reweigh(self, idx, td):
        self.prio[idx] = td.abs() + 1e-3


def q_net():
    return nn.Sequential(nn.Linear(OBS, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, GATES))


class Agent:
    def __init__(self, device, gamma=0.97, tau=0.02):
        self.device, self.gamma, self.tau = device, gamma, tau
        self.online, self.target = q_net().to(device), q_net().to(device)
        self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.Adam(self.online.parameters(), lr=2e-3)

    @torch.no_grad()
    def act(self, obs, epsilon):
        greedy = self.online(obs).argmax(1)
        explore = torch.rand(obs.shape[0], device=self.device) < epsilon
        return torch.where(explore, torch.randint(0, GATES, greedy.shape, device=self.device), greedy)

    def learn(self, replay, batch):
        idx, weight, (obs, act, rew, nxt) = replay.sample(batch)
        with torch.no_grad():
            best = self.online(nxt).argmax(1, keepdim=True)
            goal = rew + self.gamma * self.target(nxt).gather(1, best).squeeze(1)
        td = self.online(obs).gather(1, act[:, None]).squeeze(1) - goal
        loss = (weight * nn.functional.huber_loss(td, torch.zeros_like(td), reduction="none")).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for p, q in zip(self.target.parameters(), self.online.parameters()):
                p.lerp_(q, self.tau)
        replay.reweigh(idx, td.detach())
        return loss.detach()


def main(days=24, basins=16, batch=32, seed=4):
    torch.manual_seed(seed)
    device = torch_xla.device()
    dam = Dam(basins, np.random.default_rng(seed))
    agent, replay = Agent(device), Replay(2048, device)
    returns = deque(maxlen=6)

    obs = torch.from_numpy(dam.observe()).to(device)
    for day in range(days):
        epsilon = max(0.05, 0.9 * 0.95 ** day)
        action = agent.act(obs, epsilon)
        reward = dam.step(action.cpu().numpy())
        nxt = torch.from_numpy(dam.observe()).to(device)
        replay.add(obs, action, torch.from_numpy(reward).to(device), nxt)
        torch_xla.sync()
        loss = agent.learn(replay, batch)
        torch_xla.sync()
        obs = nxt
        returns.append(reward.mean())
        if (day + 1) % 6 == 0:
            print(f"day {day + 1:3d}  eps {epsilon:.2f}  reward {np.mean(returns):+.4f}  loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
