"""TD3 on a batch of simulated pendulums, replay kept in device memory."""
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Config:
    seed: int = 3
    num_envs: int = 8
    capacity: int = 4096
    batch_size: int = 64
    warmup: int = 6
    iterations: int = 50
    gamma: float = 0.98
    tau: float = 0.01
    policy_noise: float = 0.2
    noise_clip: float = 0.5
    policy_delay: int = 2
    lr: float = 1e-3


class PendulumBatch:
    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.theta = rng.uniform(-math.pi, math.pi, n)
        self.omega = rng.uniform(-1.0, 1.0, n)
        self.age = np.zeros(n, dtype=np.int64)

    def observe(self):
        obs = np.stack([np.cos(self.theta), np.sin(self.theta), self.omega / 8.0], axis=1)
        return torch.from_numpy(obs.astype(np.float32))

    def step(self, action):
        u = 2.0 * action.numpy()[:, 0]
        angle = (self.theta + math.pi) % (2 * math.pi) - math.pi
        cost = angle ** 2 + 0.1 * self.omega ** 2 + 0.001 * u ** 2
        self.omega = np.clip(self.omega + (15.0 * np.sin(self.theta) + 3.0 * u) * 0.05, -8, 8)
        self.theta = self.theta + self.omega * 0.05
        self.age += 1
        done = self.age >= 40
        self.theta[done] = self.rng.uniform(-math.pi, math.pi, done.sum())
        self.omega[done] = 0.0
        self.age[done] = 0
        reward = torch.from_numpy((-cost / 16.0).astype(np.float32))
        return self.observe(), reward, torch.from_numpy(done.astype(np.float32))


class ReplayBuffer:
    def __init__(self, capacity, obs_dim, act_dim, device, rng):
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.next_obs = torch.zeros(capacity, obs_dim, device=device)
        self.action = torch.zeros(capacity, act_dim, device=device)
        self.reward = torch.zeros(capacity, device=device)
        self.done = torch.zeros(capacity, device=device)
        self.capacity, self.device, self.rng = capacity, device, rng
        self.ptr, self.size = 0, 0

    def add(self, obs, action, reward, next_obs, done):
        n = obs.size(0)
        rows = slice(self.ptr, self.ptr + n)
        self.obs[rows] = obs
        self.action[rows] = action
        self.reward[rows] = reward
        self.next_obs[rows] = next_obs
        self.done[rows] = done
        self.ptr = (self.ptr + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, batch_size):
        idx = torch.from_numpy(self.rng.integers(0, self.size, batch_size)).to(self.device)
        return (self.obs[idx], self.action[idx], self.reward[idx],
                self.next_obs[idx], self.done[idx])


def mlp(din, dout, width=32):
    return nn.Sequential(nn.Linear(din, width), nn.ReLU(),
                         nn.Linear(width, width), nn.ReLU(), nn.Linear(width, dout))


class Agent:
    def __init__(self, cfg, obs_dim, act_dim, device):
        self.cfg = cfg
        self.actor, self.actor_t = (mlp(obs_dim, act_dim).to(device) for _ in range(2))
        self.q = nn.ModuleList([mlp(obs_dim + act_dim, 1) for _ in range(2)]).to(device)
        self.q_t = nn.ModuleList([mlp(obs_dim + act_dim, 1) for _ in range(2)]).to(device)
        self.actor_t.load_state_dict(self.actor.state_dict())
        self.q_t.load_state_dict(self.q.state_dict())
        self.opt_a = torch.optim.Adam(self.actor.parameters(), lr=cfg.lr)
        self.opt_q = torch.optim.Adam(self.q.parameters(), lr=cfg.lr)

    @torch.no_grad()
    def act(self, obs):
        return torch.tanh(self.actor(obs))

    def update(self, batch, it):
        cfg = self.cfg
        obs, action, reward, next_obs, done = batch
        with torch.no_grad():
            noise = (torch.randn_like(action) * cfg.policy_noise)
            noise = noise.clamp(-cfg.noise_clip, cfg.noise_clip)
            next_a = (torch.tanh(self.actor_t(next_obs)) + noise).clamp(-1, 1)
            sa = torch.cat([next_obs, next_a], dim=1)
            target = torch.minimum(self.q_t[0](sa), self.q_t[1](sa)).squeeze(1)
            target = reward + cfg.gamma * (1 - done) * target
        sa = torch.cat([obs, action], dim=1)
        loss = sum(F.mse_loss(q(sa).squeeze(1), target) for q in self.q)
        self.opt_q.zero_grad()
        loss.backward()
        self.opt_q.step()
        if it % cfg.policy_delay == 0:
            a_loss = -self.q[0](torch.cat([obs, torch.tanh(self.actor(obs))], dim=1)).mean()
            self.opt_a.zero_grad()
            a_loss.backward()
            self.opt_a.step()
            with torch.no_grad():
                for net, tgt in ((self.actor, self.actor_t), (self.q, self.q_t)):
                    for p, pt in zip(net.parameters(), tgt.parameters()):
                        pt.lerp_(p, cfg.tau)
        return loss.detach()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    device = torch_xla.device()
    env = PendulumBatch(cfg.num_envs, rng)
    agent = Agent(cfg, 3, 1, device)
    buffer = ReplayBuffer(cfg.capacity, 3, 1, device, rng)
    torch_xla.sync()

    obs = env.observe()
    for it in range(cfg.iterations):
        action = agent.act(obs.to(device)).cpu()
        action = (action + 0.1 * torch.randn(cfg.num_envs, 1)).clamp(-1, 1)
        next_obs, reward, done = env.step(action)
        buffer.add(*(t.to(device) for t in (obs, action, reward, next_obs, done)))
        torch_xla.sync()
        obs = next_obs
        if it >= cfg.warmup:
            loss = agent.update(buffer.sample(cfg.batch_size), it)
            torch_xla.sync()
            if it % 10 == 0:
                print(f"it {it:3d}  reward {reward.mean().item():.3f}  q {loss.item():.4f}")


if __name__ == "__main__":
    main()
