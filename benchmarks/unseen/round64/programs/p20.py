"""Double DQN for multi-echelon inventory ordering; replay memory lives on the accelerator."""
import copy
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class InventoryVec:
    """N independent two-product shops; action = joint order quantity index."""

    ORDERS = np.array([(0, 0), (4, 0), (0, 4), (4, 4), (8, 8)])
    obs_dim = 8
    n_actions = len(ORDERS)

    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.stock = np.full((n, 2), 10.0)
        self.pipeline = np.zeros((n, 2, 2))
        self.t = np.zeros(n, dtype=int)

    def observe(self):
        season = 2 * np.pi * self.t / 7
        return np.concatenate([self.stock / 20, self.pipeline.reshape(self.n, -1) / 8,
                               np.sin(season)[:, None], np.cos(season)[:, None]],
                              axis=1).astype(np.float32)

    def step(self, action):
        self.stock += self.pipeline[:, 0]
        self.pipeline[:, 0] = self.pipeline[:, 1]
        self.pipeline[:, 1] = self.ORDERS[action]
        lam = 3.0 + 1.5 * np.sin(2 * np.pi * self.t / 7)
        demand = self.rng.poisson(lam[:, None], size=(self.n, 2))
        sold = np.minimum(demand, self.stock)
        self.stock = np.clip(self.stock - sold, 0, 40)
        reward = (2.0 * sold - 0.1 * self.stock - 0.5 * (demand - sold)).sum(1)
        reward -= 0.3 * self.ORDERS[action].sum(1)
        self.t += 1
        done = self.t >= 28
        self.t[done] = 0
        self.stock[done] = 10.0
        self.pipeline[done] = 0.0
        return self.observe(), (reward / 10).astype(np.float32), done.astype(np.float32)


class ReplayMemory:
    def __init__(self, capacity, obs_dim, device):
        self.capacity = capacity
        self.device = device
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.next_obs = torch.zeros(capacity, obs_dim, device=device)
        self.action = torch.zeros(capacity, dtype=torch.long, device=device)
        self.reward = torch.zeros(capacity, device=device)
        self.done = torch.zeros(capacity, device=device)
        self.pos = 0
        self.size = 0

    def extend(self, obs, action, reward, next_obs, done):
        n = len(obs)
        span = slice(self.pos, self.pos + n)
        for store, value in ((self.obs, obs), (self.action, action), (self.reward, reward),
                             (self.next_obs, next_obs), (self.done, done)):
            store[span] = torch.as_tensor(value).to(self.device)
        self.pos = (self.pos + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, batch, rng):
        idx = torch.from_numpy(rng.integers(0, self.size, size=batch)).to(self.device)
        return (self.obs[idx], self.action[idx], self.reward[idx],
                self.next_obs[idx], self.done[idx])


def q_network(obs_dim, n_actions, width=24):
    return nn.Sequential(nn.Linear(obs_dim, width), nn.ReLU(),
                         nn.Linear(width, width), nn.ReLU(),
                         nn.Linear(width, n_actions))


def td_loss(q, target, batch, gamma):
    obs, action, reward, next_obs, done = batch
    with torch.no_grad():
        best = q(next_obs).argmax(1, keepdim=True)
        boot = target(next_obs).gather(1, best).squeeze(1)
        y = reward + gamma * (1 - done) * boot
    value = q(obs).gather(1, action.unsqueeze(1)).squeeze(1)
    return F.smooth_l1_loss(value, y)


@torch.no_grad()
def polyak(target, online, tau):
    for t, o in zip(target.parameters(), online.parameters()):
        t.lerp_(o, tau)


def main():
    torch.manual_seed(8)
    rng = np.random.default_rng(8)
    device = xm.xla_device()
    n_envs, batch, total_steps, learn_after = 8, 32, 60, 6

    env = InventoryVec(n_envs, seed=21)
    memory = ReplayMemory(1024, env.obs_dim, device)
    q = q_network(env.obs_dim, env.n_actions).to(device)
    target = copy.deepcopy(q).requires_grad_(False)
    opt = torch.optim.Adam(q.parameters(), lr=1e-3)
    recent = deque(maxlen=10)

    obs = env.observe()
    for step in range(total_steps):
        eps = max(0.05, 1.0 - step / 40)
        with torch.no_grad():
            greedy = q(torch.from_numpy(obs).to(device)).argmax(1).cpu().numpy()
        explore = rng.random(n_envs) < eps
        action = np.where(explore, rng.integers(0, env.n_actions, n_envs), greedy)
        next_obs, reward, done = env.step(action)
        memory.extend(obs, action, reward, next_obs, done)
        obs = next_obs
        recent.append(float(reward.mean()))

        if step >= learn_after:
            loss = td_loss(q, target, memory.sample(batch, rng), gamma=0.97)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(q.parameters(), 10.0)
            opt.step()
            polyak(target, q, tau=0.02)
        xm.mark_step()

        if step >= learn_after and step % 10 == 0:
            print(f"step {step:3d} eps {eps:.2f} loss {loss.item():.4f} "
                  f"reward {np.mean(recent):+.3f}")


if __name__ == "__main__":
    main()
