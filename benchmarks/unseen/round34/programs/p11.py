"""A2C on a batch of pendulums that live on the device, one graph per update."""
import math
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.distributions import Normal

N_ENVS = 16
ROLLOUT = 3
UPDATES = 16
GAMMA = 0.97
LAMBDA = 0.9


class Pendulum:
    """Swing-up, all environments stepped together, no host round trips."""

    def __init__(self, n, device, max_len=64):
        self.n, self.device, self.max_len = n, device, max_len
        self.theta = (torch.rand(n) * 2 - 1).mul_(math.pi).to(device)
        self.omega = torch.zeros(n).to(device)
        self.age = torch.randint(0, max_len, (n,)).to(device)

    def observe(self):
        return torch.stack([self.theta.cos(), self.theta.sin(), self.omega / 8.0], dim=-1)

    def step(self, torque):
        u = torque.squeeze(-1).clamp(-2.0, 2.0)
        angle = torch.atan2(self.theta.sin(), self.theta.cos())
        reward = -(angle * angle + 0.1 * self.omega * self.omega + 0.001 * u * u)
        omega = (self.omega + (15.0 * self.theta.sin() + 3.0 * u) * 0.05).clamp(-8.0, 8.0)
        theta = self.theta + omega * 0.05
        age = self.age + 1
        done = age >= self.max_len
        fresh = (torch.rand_like(theta) * 2 - 1) * math.pi
        self.theta = torch.where(done, fresh, theta)
        self.omega = torch.where(done, torch.zeros_like(omega), omega)
        self.age = torch.where(done, torch.zeros_like(age), age)
        return self.observe(), reward, done.float()


class ActorCritic(nn.Module):
    def __init__(self, obs_dim=3, hidden=24):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.mu = nn.Linear(hidden, 1)
        self.value = nn.Linear(hidden, 1)
        self.log_std = nn.Parameter(torch.zeros(1))

    def forward(self, obs):
        h = self.body(obs)
        return Normal(self.mu(h), self.log_std.exp(), validate_args=False), self.value(h).squeeze(-1)


class ReturnRange:
    """Scale returns by their 5%..95% range over the recent updates (as in DreamerV3)."""

    def __init__(self, horizon=100, low=0.05, high=0.95):
        self.recent = deque(maxlen=horizon)
        self.low, self.high = low, high

    def update(self, returns):
        self.recent.append(returns.detach().reshape(-1))

    @property
    def scale(self):
        pool, _ = torch.cat(tuple(self.recent)).sort()
        last = pool.numel() - 1
        lo = pool[int(self.low * last)]
        hi = pool[int(self.high * last)]
        return (hi - lo).clamp(min=1.0)


def gae(rewards, values, dones, bootstrap):
    advantages, running = [], torch.zeros_like(bootstrap)
    nxt = bootstrap
    for r, v, d in zip(reversed(rewards), reversed(values), reversed(dones)):
        delta = r + GAMMA * nxt * (1 - d) - v
        running = delta + GAMMA * LAMBDA * (1 - d) * running
        advantages.append(running)
        nxt = v
    return torch.stack(advantages[::-1])


def main():
    torch.manual_seed(3)
    device = torch_xla.device()
    env = Pendulum(N_ENVS, device)
    net = ActorCritic().to(device)
    opt = torch.optim.RMSprop(net.parameters(), lr=7e-4, alpha=0.99, eps=1e-5)
    ret_range = ReturnRange()
    obs = env.observe()
    torch_xla.sync()

    for update in range(UPDATES):
        seen, acts, rewards, values, dones = [], [], [], [], []
        with torch.no_grad():
            for _ in range(ROLLOUT):
                dist, v = net(obs)
                a = dist.sample()
                seen.append(obs)
                acts.append(a)
                values.append(v)
                obs, r, d = env.step(a)
                rewards.append(r)
                dones.append(d)
            _, bootstrap = net(obs)
            adv = gae(rewards, values, dones, bootstrap)
            returns = adv + torch.stack(values)
            ret_range.update(returns)
            adv = adv / ret_range.scale

        dist, v = net(torch.stack(seen))
        logp = dist.log_prob(torch.stack(acts)).squeeze(-1)
        pg_loss = -(logp * adv).mean()
        v_loss = F.smooth_l1_loss(v, returns)
        entropy = dist.entropy().mean()
        loss = pg_loss + 0.5 * v_loss - 1e-3 * entropy

        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        opt.step()
        torch_xla.sync()

        if update % 8 == 7:
            mean_r = torch.stack(rewards).mean().item()
            print(f"update {update + 1:3d}  reward {mean_r:7.3f}  value loss {v_loss.item():8.3f}")


if __name__ == "__main__":
    main()
