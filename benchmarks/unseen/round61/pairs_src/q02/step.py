"""TD3 for a planar 4-joint reaching task, learner side."""
import math
from copy import deepcopy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def mlp(sizes, act=nn.ReLU, out=None):
    layers = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        layers.append(nn.Linear(a, b))
        if i < len(sizes) - 2:
            layers.append(act())
    if out is not None:
        layers.append(out())
    return nn.Sequential(*layers)


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.pi = mlp([obs_dim, hidden, hidden, act_dim], out=nn.Tanh)

    def forward(self, obs):
        return self.pi(obs)


class TwinCritic(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden):
        super().__init__()
        self.q1 = mlp([obs_dim + act_dim, hidden, hidden, 1])
        self.q2 = mlp([obs_dim + act_dim, hidden, hidden, 1])

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class PlanarArm:
    """Kinematics of a 4-link arm; observation is sin/cos of joints, tip and goal."""

    links = np.array([0.4, 0.3, 0.2, 0.1])

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.q = self.rng.uniform(-math.pi, math.pi, 4)
        self.goal = self.rng.uniform(-0.7, 0.7, 2)
        return self.obs()

    def tip(self):
        a = np.cumsum(self.q)
        return np.array([(self.links * np.cos(a)).sum(), (self.links * np.sin(a)).sum()])

    def obs(self):
        return np.concatenate([np.sin(self.q), np.cos(self.q), self.tip(), self.goal])

    def step(self, action):
        self.q = self.q + 0.2 * action
        dist = np.linalg.norm(self.tip() - self.goal)
        done = dist < 0.05
        return self.obs(), -dist + 10.0 * done - 0.01 * np.square(action).sum(), done


class ReplayBuffer:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.rows = []

    def add(self, *row):
        self.rows.append([np.asarray(v, dtype=np.float32) for v in row])

    def sample(self, n):
        idx = self.rng.integers(0, len(self.rows), n)
        return [torch.from_numpy(np.stack([self.rows[i][k] for i in idx])) for k in range(5)]


class TD3:
    def __init__(self, obs_dim, act_dim, device, hidden=32, gamma=0.99, tau=0.005,
                 policy_noise=0.2, noise_clip=0.5, policy_freq=2):
        self.device = device
        self.actor = Actor(obs_dim, act_dim, hidden).to(device)
        self.critic = TwinCritic(obs_dim, act_dim, hidden).to(device)
        self.actor_target = deepcopy(self.actor).requires_grad_(False)
        self.critic_target = deepcopy(self.critic).requires_grad_(False)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=3e-4)
        self.gamma, self.tau = gamma, tau
        self.policy_noise, self.noise_clip = policy_noise, noise_clip
        self.policy_freq = policy_freq
        self.total_it = 0

    def train(self, replay, batch_size=16):
        self.total_it += 1
        obs, act, rew, nxt, done = [t.to(self.device) for t in replay.sample(batch_size)]

        with torch.no_grad():
            noise = (torch.randn_like(act) * self.policy_noise).clamp(-self.noise_clip, self.noise_clip)
            next_act = (self.actor_target(nxt) + noise).clamp(-1.0, 1.0)
            t1, t2 = self.critic_target(nxt, next_act)
            target = rew + (1.0 - done) * self.gamma * torch.min(t1, t2)

        q1, q2 = self.critic(obs, act)
        critic_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()

        if self.total_it % self.policy_freq == 0:
            actor_loss = -self.critic(obs, self.actor(obs))[0].mean()
            self.actor_opt.zero_grad()
            actor_loss.backward()
            self.actor_opt.step()
            with torch.no_grad():
                for p, tp in zip(self.critic.parameters(), self.critic_target.parameters()):
                    tp.mul_(1 - self.tau).add_(p, alpha=self.tau)
                for p, tp in zip(self.actor.parameters(), self.actor_target.parameters()):
                    tp.mul_(1 - self.tau).add_(p, alpha=self.tau)

        torch_xla.sync()
        return critic_loss.item()


def main():
    torch.manual_seed(0)
    torch_xla.manual_seed(0)
    device = torch_xla.device()
    env, replay = PlanarArm(0), ReplayBuffer(0)
    obs = env.reset()
    for _ in range(200):
        action = env.rng.uniform(-1, 1, 4)
        nxt, rew, done = env.step(action)
        replay.add(obs, action, rew, nxt, float(done))
        obs = env.reset() if done else nxt
    agent = TD3(obs_dim=12, act_dim=4, device=device)
    torch_xla.sync()
    for it in range(8):
        print(it, agent.train(replay), flush=True)


if __name__ == "__main__":
    main()
