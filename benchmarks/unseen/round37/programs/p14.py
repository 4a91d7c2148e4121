"""Double DQN with prioritized replay on a small inventory problem.

Four warehouses run side by side on the host; the replay memory lives on the
accelerator so that batches never cross the bus.
"""
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

SEED = 3
N_ENVS = 4
OBS_DIM = 6
N_ACTIONS = 5


class InventoryEnv:
    """Order 0..4 units a day; demand is seasonal and partly random."""

    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.stock = rng.integers(0, 10, size=n).astype(np.float32)
        self.day = rng.integers(0, 7, size=n)

    def observe(self):
        phase = 2 * np.pi * self.day / 7
        return np.stack([
            self.stock / 10, np.sin(phase), np.cos(phase),
            (self.stock < 2), (self.stock > 8), np.ones(self.n)], axis=1).astype(np.float32)

    def step(self, action):
        demand = self.rng.poisson(1.5 + np.sin(2 * np.pi * self.day / 7))
        available = self.stock + action
        sold = np.minimum(available, demand)
        self.stock = np.minimum(available - sold, 12).astype(np.float32)
        self.day = (self.day + 1) % 7
        reward = 2.0 * sold - 0.8 * action - 0.1 * self.stock
        return self.observe(), reward.astype(np.float32)


class PrioritizedReplay:
    def __init__(self, capacity, device, alpha=0.6):
        self.capacity, self.alpha, self.device = capacity, alpha, device
        self.obs = torch.zeros(capacity, OBS_DIM, device=device)
        self.next_obs = torch.zeros(capacity, OBS_DIM, device=device)
        self.action = torch.zeros(capacity, dtype=torch.long, device=device)
        self.reward = torch.zeros(capacity, device=device)
        self.priority = torch.zeros(capacity, device=device)
        self.max_priority = torch.full((), 1.5, device=device)
        self.pos = 0
        self.size = 0

    def add(self, obs, action, reward, next_obs):
        n = len(action)
        end = self.pos + n
        self.obs[self.pos:end] = torch.from_numpy(obs).to(self.device)
        self.next_obs[self.pos:end] = torch.from_numpy(next_obs).to(self.device)
        self.action[self.pos:end] = torch.from_numpy(action).to(self.device)
        self.reward[self.pos:end] = torch.from_numpy(reward).to(self.device)
        self.priority[self.pos:end] = self.max_priority
        self.pos = end % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, batch, beta):
        probs = self.priority ** self.alpha
        probs = probs / probs.sum()
        idx = torch.multinomial(probs, batch, replacement=True)
        weights = (probs[idx] * self.size) ** (-beta)
        weights = weights / weights.max()
        return (self.obs[idx], self.action[idx], self.reward[idx],
                self.next_obs[idx], weights, idx)

    def update(self, idx, td):
        new = td.detach().abs() + 1e-3
        self.priority = self.priority.index_copy(0, idx, new)
        self.max_priority = torch.maximum(self.max_priority, new.max())


def build_net():
    return nn.Sequential(nn.Linear(OBS_DIM, 48), nn.ReLU(), nn.Linear(48, N_ACTIONS))


def act(net, obs, eps, device):
    with torch.no_grad():
        greedy = net(torch.from_numpy(obs).to(device)).argmax(1).cpu().numpy()
    explore = np.random.rand(len(greedy)) < eps
    return np.where(explore, np.random.randint(0, N_ACTIONS, len(greedy)), greedy)


def learn(net, target, optimizer, memory, beta, batch=32, gamma=0.95):
    obs, action, reward, next_obs, weights, idx = memory.sample(batch, beta)
    with torch.no_grad():
        best = net(next_obs).argmax(1, keepdim=True)
        backup = reward + gamma * target(next_obs).gather(1, best).squeeze(1)
    q = net(obs).gather(1, action[:, None]).squeeze(1)
    td = q - backup
    loss = (weights * F.smooth_l1_loss(q, backup, reduction="none")).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 10.0)
    optimizer.step()
    memory.update(idx, td)
    return loss.detach()


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    device = torch_xla.device()
    total, warmup, target_every = 36, 8, 12

    env = InventoryEnv(N_ENVS, np.random.default_rng(SEED))
    memory = PrioritizedReplay(1024, device)
    net, target = build_net().to(device), build_net().to(device)
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    torch_xla.sync()

    obs, returns = env.observe(), []
    for t in range(total):
        eps = max(0.05, 1.0 - t / 24)
        action = act(net, obs, eps, device)
        next_obs, reward = env.step(action)
        memory.add(obs, action, reward, next_obs)
        torch_xla.sync()
        obs = next_obs
        returns.append(reward.mean())

        if t >= warmup and t % 2 == 0:
            beta = min(1.0, 0.4 + 0.6 * t / 100)
            loss = learn(net, target, optimizer, memory, beta)
            torch_xla.sync()
            if t % target_every == 0:
                target.load_state_dict(net.state_dict())
                torch_xla.sync()
                print(f"t {t} loss {loss.item():.4f} eps {eps:.2f} "
                      f"reward {np.mean(returns[-10:]):.3f}")


if __name__ == "__main__":
    main()
