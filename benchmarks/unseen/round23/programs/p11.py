"""Double DQN on a small point-mass navigation task. Replay lives on the accelerator."""
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class PointMass:
    """2-D point that has to reach the origin; five discrete thrust actions."""

    THRUST = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], dtype=np.float32)

    def __init__(self, seed=0, horizon=40):
        self.rng = np.random.default_rng(seed)
        self.horizon = horizon

    def reset(self):
        self.t = 0
        self.state = np.concatenate([self.rng.uniform(-1, 1, 2), np.zeros(2)]).astype(np.float32)
        return self.state.copy()

    def step(self, action):
        self.t += 1
        self.state[2:] = 0.9 * self.state[2:] + 0.1 * self.THRUST[action]
        self.state[:2] += 0.2 * self.state[2:]
        dist = float(np.linalg.norm(self.state[:2]))
        done = dist < 0.1 or self.t >= self.horizon
        return self.state.copy(), -dist, done


class ReplayBuffer:
    def __init__(self, capacity, obs_dim, device):
        self.capacity, self.device = capacity, device
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.next_obs = torch.zeros(capacity, obs_dim, device=device)
        self.action = torch.zeros(capacity, dtype=torch.long, device=device)
        self.reward = torch.zeros(capacity, device=device)
        self.done = torch.zeros(capacity, device=device)
        self.pos, self.size = 0, 0

    def add(self, obs, action, reward, next_obs, done):
        self.obs[self.pos] = torch.from_numpy(obs).to(self.device)
        self.next_obs[self.pos] = torch.from_numpy(next_obs).to(self.device)
        self.action[self.pos] = torch.tensor(action, device=self.device)
        self.reward[self.pos] = torch.tensor(reward, device=self.device)
        self.done[self.pos] = torch.tensor(float(done), device=self.device)
        self.pos = (self.pos + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, n):
        idx = torch.from_numpy(np.random.randint(0, self.size, n)).to(self.device)
        return self.obs[idx], self.action[idx], self.reward[idx], self.next_obs[idx], self.done[idx]


class QNet(nn.Module):
    def __init__(self, obs_dim, n_actions, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.value = nn.Linear(width, 1)
        self.adv = nn.Linear(width, n_actions)

    def forward(self, x):
        h = self.body(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(dim=1, keepdim=True)


def soft_update(target, source, tau):
    with torch.no_grad():
        for pt, ps in zip(target.parameters(), source.parameters()):
            pt.mul_(1.0 - tau).add_(ps, alpha=tau)


def main(total_steps=48, warmup=12, batch=32, gamma=0.98):
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    device = torch_xla.device()
    env = PointMass()
    q, q_target = QNet(4, 5).to(device), QNet(4, 5).to(device)
    q_target.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=3e-3)
    replay = ReplayBuffer(512, 4, device)
    torch_xla.sync()

    obs, episode_return, returns = env.reset(), 0.0, []
    for step in range(total_steps):
        eps = 0.05 + 0.9 * math.exp(-step / 20)
        if random.random() < eps:
            action = random.randrange(5)
        else:
            with torch.no_grad():
                action = q(torch.from_numpy(obs)[None].to(device)).argmax(dim=1).item()
        next_obs, reward, done = env.step(action)
        replay.add(obs, action, reward, next_obs, done)
        episode_return += reward
        obs = next_obs
        if done:
            returns.append(episode_return)
            obs, episode_return = env.reset(), 0.0

        if step < warmup:
            xm.mark_step()
            continue

        s, a, r, s2, d = replay.sample(batch)
        with torch.no_grad():
            best = q(s2).argmax(dim=1, keepdim=True)
            target = r + gamma * (1 - d) * q_target(s2).gather(1, best).squeeze(1)
        pred = q(s).gather(1, a[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(pred, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        soft_update(q_target, q, 0.02)
        xm.mark_step()
        if step % 12 == 0:
            print(f"step {step:4d} loss {loss.item():.4f} eps {eps:.2f} episodes {len(returns)}")

    print("mean return", np.mean(returns) if returns else float("nan"))


if __name__ == "__main__":
    main()
