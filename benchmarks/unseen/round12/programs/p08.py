import math
from collections import deque

import torch
import torch.nn as nn
import torch_xla


class PendulumBatch:
    """Torque-controlled pendulum, many copies at once, all on the accelerator."""

    def __init__(self, count, device, dt=0.08):
        self.count, self.device, self.dt = count, device, dt

    def reset(self):
        theta = (torch.rand(self.count) * 2 - 1) * math.pi
        omega = torch.rand(self.count) * 2 - 1
        self.theta, self.omega = theta.to(self.device), omega.to(self.device)
        return self.observe()

    def observe(self):
        return torch.stack([self.theta.cos(), self.theta.sin(), self.omega / 8], 1)

    def step(self, torque):
        torque = torque.clamp(-2.0, 2.0)
        wrapped = torch.atan2(self.theta.sin(), self.theta.cos())
        reward = -(wrapped ** 2 + 0.1 * self.omega ** 2 + 0.001 * torque ** 2)
        self.omega = (self.omega + self.dt * (15 * self.theta.sin() + 3 * torque)).clamp(-8, 8)
        self.theta = self.theta + self.dt * self.omega
        return self.observe(), reward


class GaussianPolicy(nn.Module):
    def __init__(self, obs=3, hidden=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, hidden), nn.Tanh(),
                                   nn.Linear(hidden, hidden), nn.Tanh())
        self.mu = nn.Linear(hidden, 1)
        self.log_std = nn.Parameter(torch.full((1,), -0.5))

    def act(self, obs):
        mu = 2 * torch.tanh(self.mu(self.trunk(obs))).squeeze(1)
        noise = torch.randn(mu.shape).to(mu.device)
        action = (mu + self.log_std.exp() * noise).detach()
        z = (action - mu) * torch.exp(-self.log_std)
        logp = -0.5 * z ** 2 - self.log_std - 0.5 * math.log(2 * math.pi)
        return action, logp


class Baseline:
    def __init__(self, horizon=100):
        self.history = deque(maxlen=horizon)

    def update(self, returns):
        self.history.append(returns.mean(dim=1))

    def value(self, like):
        if not self.history:
            return torch.zeros_like(like)
        return torch.stack(tuple(self.history)).mean(dim=0)[:, None].expand_as(like)


class Agent:
    def __init__(self, envs=16, length=8, gamma=0.97):
        self.device = torch_xla.device()
        self.env = PendulumBatch(envs, self.device)
        self.policy = GaussianPolicy().to(self.device)
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=3e-3)
        self.baseline = Baseline()
        self.length, self.gamma = length, gamma

    def rollout(self):
        obs = self.env.reset()
        logps, rewards = [], []
        for _ in range(self.length):
            action, logp = self.policy.act(obs)
            obs, reward = self.env.step(action)
            logps.append(logp)
            rewards.append(reward)
        return torch.stack(logps), torch.stack(rewards)

    def discounted(self, rewards):
        out, running = [], torch.zeros_like(rewards[0])
        for r in reversed(rewards.unbind(0)):
            running = r + self.gamma * running
            out.append(running)
        return torch.stack(out[::-1])

    def improve(self):
        logps, rewards = self.rollout()
        returns = self.discounted(rewards)
        advantage = returns - self.baseline.value(returns)
        loss = -(logps * advantage.detach()).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.baseline.update(returns.detach())
        score = returns[0].mean()
        torch_xla.sync()
        return loss, score


if __name__ == "__main__":
    torch.manual_seed(12)
    agent = Agent()
    for it in range(14):
        loss, ret = agent.improve()
        if it % 4 == 0:
            print(f"iter {it:3d}  loss {loss.item():8.4f}  return {ret.item():8.3f}")
