"""Double DQN with uniform replay on a small cart-and-pole simulator.

The environments are stepped on the host (numpy), transitions and learning live on the device.
"""
import copy
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class VectorCartPole:
    """Batched cart-pole, Euler integration, auto-reset."""

    def __init__(self, num_envs, seed):
        self.n = num_envs
        self.rng = np.random.default_rng(seed)
        self.state = self.rng.uniform(-0.05, 0.05, size=(num_envs, 4)).astype(np.float32)
        self.length = np.zeros(num_envs, dtype=np.int64)

    def observe(self):
        return self.state.copy()

    def step(self, action):
        x, v, th, om = self.state.T
        force = np.where(action == 1, 10.0, -10.0)
        tmp = (force + 0.05 * om ** 2 * np.sin(th)) / 1.1
        alpha = (9.8 * np.sin(th) - np.cos(th) * tmp) / (0.5 * (4.0 / 3.0 - 0.1 * np.cos(th) ** 2 / 1.1))
        acc = tmp - 0.05 * alpha * np.cos(th) / 1.1
        nxt = np.stack([x + 0.02 * v, v + 0.02 * acc, th + 0.02 * om, om + 0.02 * alpha], axis=1)
        nxt = nxt.astype(np.float32)
        self.length += 1
        done = (np.abs(nxt[:, 0]) > 2.4) | (np.abs(nxt[:, 2]) > 0.21) | (self.length >= 200)
        terminal_obs = nxt.copy()
        if done.any():
            nxt[done] = self.rng.uniform(-0.05, 0.05, size=(int(done.sum()), 4))
            self.length[done] = 0
        self.state = nxt
        return terminal_obs, np.ones(self.n, dtype=np.float32), done.astype(np.float32)


class QNetwork(nn.Module):
    def __init__(self, obs_dim=4, num_actions=2, width=64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.value = nn.Linear(width, 1)
        self.advantage = nn.Linear(width, num_actions)

    def forward(self, obs):
        h = self.trunk(obs)
        adv = self.advantage(h)
        return self.value(h) + adv - adv.mean(dim=-1, keepdim=True)


class ReplayMemory:
    def __init__(self, capacity, obs_dim, device):
        self.capacity = capacity
        self.device = device
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.next_obs = torch.zeros(capacity, obs_dim, device=device)
        self.action = torch.zeros(capacity, dtype=torch.long, device=device)
        self.reward = torch.zeros(capacity, device=device)
        self.done = torch.zeros(capacity, device=device)
        self.head = 0
        self.filled = 0

    def add(self, obs, action, reward, next_obs, done):
        n = obs.shape[0]
        rows = slice(self.head, self.head + n)
        self.obs[rows] = torch.from_numpy(obs).to(self.device)
        self.action[rows] = torch.from_numpy(action).to(self.device)
        self.reward[rows] = torch.from_numpy(reward).to(self.device)
        self.next_obs[rows] = torch.from_numpy(next_obs).to(self.device)
        self.done[rows] = torch.from_numpy(done).to(self.device)
        self.head = (self.head + n) % self.capacity
        self.filled = min(self.filled + n, self.capacity)

    def sample(self, batch_size, rng):
        idx = torch.from_numpy(rng.integers(0, self.filled, size=batch_size)).to(self.device)
        return (self.obs[idx], self.action[idx], self.reward[idx], self.next_obs[idx], self.done[idx])


def td_loss(online, target, batch, gamma):
    obs, action, reward, next_obs, done = batch
    q = online(obs).gather(1, action.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        best = online(next_obs).argmax(dim=1, keepdim=True)
        bootstrap = target(next_obs).gather(1, best).squeeze(1)
        expected = reward + gamma * (1.0 - done) * bootstrap
    return F.smooth_l1_loss(q, expected)


def soft_update(target, online, tau):
    with torch.no_grad():
        for pt, po in zip(target.parameters(), online.parameters()):
            pt.lerp_(po, tau)


def main():
    torch.manual_seed(11)
    rng = np.random.default_rng(11)
    device = torch_xla.device()
    envs = VectorCartPole(num_envs=16, seed=5)
    online = QNetwork().to(device)
    target = copy.deepcopy(online)
    memory = ReplayMemory(capacity=4096, obs_dim=4, device=device)
    optimizer = torch.optim.SGD(online.parameters(), lr=5e-3, momentum=0.9)
    actor = copy.deepcopy(online).cpu()

    total_steps, warmup, eps_end = 60, 4, 0.05
    obs = envs.observe()
    for step in range(total_steps):
        eps = eps_end + (1.0 - eps_end) * math.exp(-step / 20.0)
        with torch.no_grad():
            greedy = actor(torch.from_numpy(obs)).argmax(dim=1).numpy()
        explore = rng.random(envs.n) < eps
        action = np.where(explore, rng.integers(0, 2, size=envs.n), greedy)
        next_obs, reward, done = envs.step(action)
        memory.add(obs, action, reward, next_obs, done)
        obs = envs.observe()

        if step >= warmup:
            loss = td_loss(online, target, memory.sample(64, rng), gamma=0.99)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            soft_update(target, online, tau=0.01)
        torch_xla.sync()

        if step % 10 == 9:
            actor.load_state_dict({k: v.cpu() for k, v in online.state_dict().items()})
            print(f"step {step + 1:3d}  eps {eps:.2f}  td {loss.item():.4f}  episode length {envs.length.mean():.1f}")


if __name__ == "__main__":
    main()
