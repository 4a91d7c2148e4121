"""TD3 on a torque-limited pendulum simulated on the host."""
import copy
import math
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class Pendulum:
    max_torque, dt, horizon = 2.0, 0.05, 100

    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.theta = self.rng.uniform(-math.pi, math.pi)
        self.omega = self.rng.uniform(-1.0, 1.0)
        self.t = 0
        return self._obs()

    def step(self, action):
        u = float(np.clip(action, -1.0, 1.0)) * self.max_torque
        angle = (self.theta + math.pi) % (2 * math.pi) - math.pi
        reward = -(angle ** 2 + 0.1 * self.omega ** 2 + 0.001 * u ** 2)
        self.omega = float(np.clip(self.omega + (15.0 * math.sin(self.theta) + 3.0 * u) * self.dt, -8, 8))
        self.theta += self.omega * self.dt
        self.t += 1
        return self._obs(), reward, self.t >= self.horizon

    def _obs(self):
        return np.array([math.cos(self.theta), math.sin(self.theta), self.omega / 8.0], dtype=np.float32)


class ReplayBuffer:
    def __init__(self, capacity, obs_dim, rng):
        self.obs = np.zeros((capacity, obs_dim), np.float32)
        self.next_obs = np.zeros((capacity, obs_dim), np.float32)
        self.act = np.zeros((capacity, 1), np.float32)
        self.rew = np.zeros((capacity, 1), np.float32)
        self.capacity, self.size, self.head, self.rng = capacity, 0, 0, rng

    def push(self, obs, act, rew, next_obs):
        i = self.head
        self.obs[i], self.act[i], self.rew[i], self.next_obs[i] = obs, act, rew, next_obs
        self.head = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, n, device):
        idx = self.rng.integers(0, self.size, n)
        columns = (self.obs, self.act, self.rew, self.next_obs)
        return [torch.from_numpy(c[idx]).to(device) for c in columns]


class Actor(nn.Module):
    def __init__(self, obs_dim, width=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs_dim, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, obs):
        return torch.tanh(self.net(obs))


class TwinCritic(nn.Module):
    def __init__(self, obs_dim, width=48):
        super().__init__()
        self.q = nn.ModuleList(
            nn.Sequential(nn.Linear(obs_dim + 1, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
            for _ in range(2)
        )

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=1)
        return self.q[0](x), self.q[1](x)


class TD3:
    def __init__(self, obs_dim, device, gamma=0.98, tau=0.01, policy_delay=2, noise=0.2, noise_clip=0.5):
        self.device = device
        self.gamma, self.tau, self.policy_delay = gamma, tau, policy_delay
        self.noise, self.noise_clip = noise, noise_clip
        self.actor, self.critic = Actor(obs_dim).to(device), TwinCritic(obs_dim).to(device)
        self.actor_target, self.critic_target = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.updates = 0

    @torch.no_grad()
    def act(self, obs):
        return self.actor(torch.from_numpy(obs)[None].to(self.device)).cpu().numpy()[0, 0]

    def update(self, batch):
        obs, act, rew, next_obs = batch
        self.updates += 1
        with torch.no_grad():
            smoothing = (torch.randn_like(act) * self.noise).clamp(-self.noise_clip, self.noise_clip)
            next_act = (self.actor_target(next_obs) + smoothing).clamp(-1.0, 1.0)
            target = rew + self.gamma * torch.minimum(*self.critic_target(next_obs, next_act))
        q1, q2 = self.critic(obs, act)
        loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        self.critic_opt.zero_grad()
        loss.backward()
        self.critic_opt.step()

        if self.updates % self.policy_delay == 0:
            self.actor_opt.zero_grad()
            (-self.critic(obs, self.actor(obs))[0].mean()).backward()
            self.actor_opt.step()
            with torch.no_grad():
                for net, slow in ((self.actor, self.actor_target), (self.critic, self.critic_target)):
                    for p, q in zip(net.parameters(), slow.parameters()):
                        q.lerp_(p, self.tau)
        xm.mark_step()
        return loss.detach()


def evaluate(agent, env, episodes):
    returns = []
    for _ in range(episodes):
        obs, done, total = env.reset(), False, 0.0
        while not done:
            obs, reward, done = env.step(agent.act(obs))
            total += reward
        returns.append(total)
    return float(np.mean(returns))


def main(updates=60, warmup=200, steps_per_update=4, batch_size=64):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    env, eval_env = Pendulum(rng), Pendulum(np.random.default_rng(1))
    agent = TD3(3, torch_xla.device())
    buffer = ReplayBuffer(2000, 3, rng)

    obs = env.reset()
    for step in range(warmup + updates * steps_per_update):
        sigma = max(0.1, 0.4 * (1.0 - step / 600))
        action = rng.uniform(-1, 1) if step < warmup else agent.act(obs) + sigma * rng.normal()
        next_obs, reward, done = env.step(action)
        buffer.push(obs, action, reward, next_obs)
        obs = env.reset() if done else next_obs
        if step >= warmup and (step - warmup) % steps_per_update == steps_per_update - 1:
            loss = agent.update(buffer.sample(batch_size, agent.device))
            if agent.updates % 20 == 0:
                score = evaluate(agent, eval_env, episodes=2)
                print(f"update {agent.updates:3d}  critic loss {loss.item():8.3f}  return {score:8.1f}")


if __name__ == "__main__":
    main()
