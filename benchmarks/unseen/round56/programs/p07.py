"""Double DQN with prioritized replay on a toy grid pursuit; the replay memory lives on the accelerator."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class Pursuit:
    """N agents chase their own drifting targets on a plane. Four moves."""

    moves = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]], dtype=np.float32)

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.n = n
        self.pos = self.rng.normal(size=(n, 2)).astype(np.float32) * 3
        self.goal = self.rng.normal(size=(n, 2)).astype(np.float32) * 3

    def observe(self):
        return np.concatenate([self.pos, self.goal - self.pos], 1)

    def step(self, actions):
        before = np.linalg.norm(self.goal - self.pos, axis=1)
        self.pos += 0.5 * self.moves[actions]
        self.goal += 0.05 * self.rng.normal(size=self.goal.shape).astype(np.float32)
        after = np.linalg.norm(self.goal - self.pos, axis=1)
        done = after < 0.5
        reward = (before - after + done).astype(np.float32)
        fresh = self.rng.normal(size=(self.n, 2)).astype(np.float32) * 3
        obs = self.observe()
        self.pos = np.where(done[:, None], fresh, self.pos)
        return obs, reward, done.astype(np.float32)


class PrioritizedReplay:
    def __init__(self, capacity, obs_dim, device, alpha=0.6, eps=1e-3):
        self.capacity, self.alpha, self.eps = capacity, alpha, eps
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.next_obs = torch.zeros(capacity, obs_dim, device=device)
        self.action = torch.zeros(capacity, dtype=torch.long, device=device)
        self.reward = torch.zeros(capacity, device=device)
        self.done = torch.zeros(capacity, device=device)
        self.priority = torch.zeros(capacity, device=device)
        self.head = 0
        self.size = 0

    def add(self, obs, action, reward, next_obs, done):
        n = obs.shape[0]
        where = slice(self.head, self.head + n)
        self.obs[where] = obs
        self.next_obs[where] = next_obs
        self.action[where] = action
        self.reward[where] = reward
        self.done[where] = done
        self.priority[where] = self.priority.max().clamp(min=1.0)
        self.head = (self.head + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, batch_size, beta):
        p = self.priority ** self.alpha
        p = p / p.sum()
        cdf = p.cumsum(0)
        u = torch.rand(batch_size, device=p.device)
        idx = (cdf[None, :] < u[:, None]).sum(1).clamp(max=self.capacity - 1)
        weights = (self.size * p[idx] + 1e-8) ** (-beta)
        weights = weights / weights.max()
        batch = (self.obs[idx], self.action[idx], self.reward[idx], self.next_obs[idx], self.done[idx])
        return idx, weights, batch

    def update_priorities(self, idx, td_error):
        self.priority.index_copy_(0, idx, td_error.abs() + self.eps)


class Dueling(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.value = nn.Linear(hidden, 1)
        self.advantage = nn.Linear(hidden, n_actions)

    def forward(self, x):
        h = self.trunk(x)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


def linear(step, start, end, duration):
    return start + (end - start) * min(1.0, step / duration)


def main(steps=36, n_envs=4, capacity=256, batch_size=32, gamma=0.97, tau=0.02):
    torch.manual_seed(21)
    rng = np.random.default_rng(21)
    device = torch_xla.device()
    env = Pursuit(n_envs, seed=4)
    online = Dueling(4, 4).to(device)
    target = copy.deepcopy(online).requires_grad_(False)
    opt = torch.optim.Adam(online.parameters(), lr=3e-3)
    memory = PrioritizedReplay(capacity, 4, device)

    obs, total = env.observe(), 0.0
    for step in range(steps):
        state = torch.from_numpy(obs).to(device)
        with torch.no_grad():
            greedy = online(state).argmax(1).cpu().numpy()
        explore = rng.uniform(size=n_envs) < linear(step, 1.0, 0.05, steps // 2)
        actions = np.where(explore, rng.integers(0, 4, n_envs), greedy)
        next_obs, reward, done = env.step(actions)
        total += float(reward.mean())
        memory.add(state, torch.from_numpy(actions).to(device), torch.from_numpy(reward).to(device),
                   torch.from_numpy(next_obs).to(device), torch.from_numpy(done).to(device))
        obs = env.observe()

        beta = linear(step, 0.4, 1.0, steps)
        idx, weights, (s, a, r, s2, d) = memory.sample(batch_size, beta)
        with torch.no_grad():
            best = online(s2).argmax(1, keepdim=True)
            y = r + gamma * (1.0 - d) * target(s2).gather(1, best).squeeze(1)
        q = online(s).gather(1, a[:, None]).squeeze(1)
        loss = (weights * F.smooth_l1_loss(q, y, reduction="none")).mean()
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(online.parameters(), 10.0)
        opt.step()
        memory.update_priorities(idx, (q - y).detach())
        with torch.no_grad():
            for p, q_ in zip(target.parameters(), online.parameters()):
                p.lerp_(q_, tau)
        xm.mark_step()
        if (step + 1) % 12 == 0:
            print(f"step {step + 1:3d}  loss {loss.item():.4f}  reward/step {total / (step + 1):.3f}")


if __name__ == "__main__":
    main()
