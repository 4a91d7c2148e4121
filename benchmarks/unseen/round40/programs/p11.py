"""Double DQN with prioritised replay on a vectorised grid-pursuit task."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import copy

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

ACTIONS = 5
MOVES = np.array([[0, 0], [0, 1], [0, -1], [1, 0], [-1, 0]])


class Pursuit:
    """`n` copies of a hunter on a torus that chases a randomly moving target."""

    def __init__(self, n, size, rng):
        self.n, self.size, self.rng = n, size, rng
        self.hunter = rng.integers(0, size, (n, 2))
        self.target = rng.integers(0, size, (n, 2))

    def observe(self):
        delta = (self.target - self.hunter + self.size // 2) % self.size - self.size // 2
        phase = 2 * np.pi * self.hunter / self.size
        obs = np.concatenate([delta / self.size, np.sin(phase), np.cos(phase)], axis=1)
        return obs.astype(np.float32)

    def step(self, action):
        self.hunter = (self.hunter + MOVES[action]) % self.size
        drift = MOVES[self.rng.integers(0, ACTIONS, self.n)]
        self.target = (self.target + drift) % self.size
        caught = (self.hunter == self.target).all(axis=1)
        if caught.any():
            self.target[caught] = self.rng.integers(0, self.size, (int(caught.sum()), 2))
        return np.where(caught, 1.0, -0.02).astype(np.float32), caught


class PrioritisedReplay:
    def __init__(self, capacity, obs_dim, alpha, rng):
        self.capacity, self.alpha, self.rng = capacity, alpha, rng
        self.obs = np.zeros((capacity, obs_dim), np.float32)
        self.next_obs = np.zeros((capacity, obs_dim), np.float32)
        self.action = np.zeros(capacity, np.int64)
        self.reward = np.zeros(capacity, np.float32)
        self.done = np.zeros(capacity, np.float32)
        self.priority = np.zeros(capacity, np.float32)
        self.head, self.size, self.top = 0, 0, 1.0

    def add(self, obs, action, reward, done, next_obs):
        index = (self.head + np.arange(len(action))) % self.capacity
        self.obs[index], self.next_obs[index] = obs, next_obs
        self.action[index], self.reward[index], self.done[index] = action, reward, done
        self.priority[index] = self.top
        self.head = (self.head + len(action)) % self.capacity
        self.size = min(self.size + len(action), self.capacity)

    def sample(self, batch_size):
        p = self.priority[:self.size].astype(np.float64) ** self.alpha
        p /= p.sum()
        index = self.rng.choice(self.size, batch_size, p=p)
        fields = (self.obs, self.action, self.reward, self.done, self.next_obs)
        batch = [torch.from_numpy(f[index]) for f in fields]
        scaled = torch.from_numpy((p[index] * self.size).astype(np.float32))
        return index, batch, scaled

    def update(self, index, td):
        self.priority[index] = np.abs(td) + 1e-3
        self.top = max(self.top, float(self.priority[index].max()))


class DuelingNet(nn.Module):
    def __init__(self, obs_dim, width=48):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(obs_dim, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.value = nn.Linear(width, 1)
        self.advantage = nn.Linear(width, ACTIONS)

    def forward(self, obs):
        h = self.trunk(obs)
        adv = self.advantage(h)
        return self.value(h) + adv - adv.mean(dim=1, keepdim=True)


def linear(start, end, fraction):
    return start + (end - start) * min(max(fraction, 0.0), 1.0)


def td_errors(online, target, batch, gamma):
    obs, action, reward, done, next_obs = batch
    q = online(obs).gather(1, action[:, None]).squeeze(1)
    with torch.no_grad():
        best = online(next_obs).argmax(dim=1, keepdim=True)
        bootstrap = target(next_obs).gather(1, best).squeeze(1)
        goal = reward + gamma * (1.0 - done) * bootstrap
    return q - goal


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    device = torch_xla.device()
    updates, batch_size, gamma, tau = 24, 64, 0.97, 0.02

    env = Pursuit(16, 9, rng)
    obs = env.observe()
    replay = PrioritisedReplay(2048, obs.shape[1], 0.6, rng)
    online = DuelingNet(obs.shape[1]).to(device)
    target = copy.deepcopy(online).requires_grad_(False)
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
    torch_xla.sync()

    rewards = []
    for update in range(updates):
        epsilon = linear(1.0, 0.1, update / 16)
        beta = linear(0.4, 1.0, update / updates)

        with torch.no_grad():
            greedy = online(torch.from_numpy(obs).to(device)).argmax(dim=1)
        torch_xla.sync()
        greedy = greedy.cpu().numpy()
        explore = rng.random(env.n) < epsilon
        action = np.where(explore, rng.integers(0, ACTIONS, env.n), greedy)
        reward, done = env.step(action)
        next_obs = env.observe()
        replay.add(obs, action, reward, done, next_obs)
        obs = next_obs
        rewards.append(reward.mean())

        index, batch, scaled = replay.sample(batch_size)
        batch = [field.to(device) for field in batch]
        weight = scaled.to(device) ** -beta
        weight = weight / weight.max()

        optimizer.zero_grad()
        td = td_errors(online, target, batch, gamma)
        loss = (weight * td.square()).mean()
        loss.backward()
        xm.optimizer_step(optimizer)
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), online.parameters()):
                slow.lerp_(fast, tau)
        torch_xla.sync()
        replay.update(index, td.detach().cpu().numpy())

        if (update + 1) % 8 == 0:
            print(f"update {update + 1} loss {loss.item():.4f} reward {np.mean(rewards[-8:]):.3f}")


if __name__ == "__main__":
    main()
