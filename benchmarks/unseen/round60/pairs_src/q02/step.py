"""TD3 on a small continuous-control task (damped pendulum, torque input).

The environment and the replay buffer live on the host, the networks on the
XLA device.  One learner update per environment step after the warm-up.
"""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT, HID, BATCH = 3, 1, 32, 64


class Pendulum:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def obs(self):
        return np.array([np.cos(self.th), np.sin(self.th), self.vel], np.float32)

    def reset(self):
        self.th, self.vel, self.t = self.rng.uniform(-np.pi, np.pi), 0.0, 0
        return self.obs()

    def step(self, a):
        u = 2.0 * float(np.clip(a[0], -1, 1))
        ang = (self.th + np.pi) % (2 * np.pi) - np.pi
        cost = ang ** 2 + 0.1 * self.vel ** 2 + 0.001 * u ** 2
        self.vel = float(np.clip(self.vel + (15.0 * np.sin(self.th) + 3.0 * u) * 0.05, -8, 8))
        self.th += self.vel * 0.05
        self.t += 1
        return self.obs(), -cost, self.t >= 50


class Replay:
    def __init__(self, size, seed):
        self.rng = np.random.default_rng(seed)
        self.data = [np.zeros((size, n), np.float32) for n in (OBS, ACT, OBS, 1, 1)]
        self.size, self.ptr, self.full = size, 0, 0

    def add(self, *items):
        for buf, x in zip(self.data, items):
            buf[self.ptr] = x
        self.ptr = (self.ptr + 1) % self.size
        self.full = min(self.full + 1, self.size)

    def sample(self, n, device):
        idx = self.rng.integers(0, self.full, n)
        return [torch.from_numpy(b[idx]).to(device) for b in self.data]


def mlp(cin, cout):
    return nn.Sequential(
        nn.Linear(cin, HID), nn.ReLU(), nn.Linear(HID, HID), nn.ReLU(), nn.Linear(HID, cout))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(OBS, ACT)

    def forward(self, s):
        return torch.tanh(self.net(s))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1, self.q2 = mlp(OBS + ACT, 1), mlp(OBS + ACT, 1)

    def forward(self, s, a):
        x = torch.cat([s, a], dim=-1)
        return self.q1(x), self.q2(x)


class TD3:
    def __init__(self, device, gamma=0.98, tau=0.005, noise=0.2, clip=0.5, delay=2):
        self.device, self.gamma, self.tau = device, gamma, tau
        self.noise, self.clip, self.delay = noise, clip, delay
        self.actor, self.critic = Actor().to(device), Critic().to(device)
        self.actor_t, self.critic_t = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.updates = 0
        self.stats = {}

    @torch.no_grad()
    def act(self, obs):
        a = self.actor(torch.from_numpy(obs)[None].to(self.device))
        return a.cpu().numpy()[0]

    @torch.no_grad()
    def polyak(self, net, target):
        for p, t in zip(net.parameters(), target.parameters()):
            t.lerp_(p, self.tau)

    def update(self, batch):
        s, a, s2, r, d = batch
        self.updates += 1
        with torch.no_grad():
            eps = (torch.randn_like(a) * self.noise).clamp(-self.clip, self.clip)
            a2 = (self.actor_t(s2) + eps).clamp(-0.999, 0.999)
            q1, q2 = self.critic_t(s2, a2)
            y = r + self.gamma * (1.0 - d) * torch.minimum(q1, q2)
        q1, q2 = self.critic(s, a)
        critic_loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()
        self.stats["critic"] = critic_loss.detach()

        if self.updates % self.delay == 0:
            actor_loss = -self.critic.q1(torch.cat([s, self.actor(s)], dim=-1)).mean()
            self.actor_opt.zero_grad()
            actor_loss.backward()
            self.actor_opt.step()
            self.polyak(self.actor, self.actor_t)
            self.polyak(self.critic, self.critic_t)
            self.stats["actor"] = actor_loss.detach()


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    env, replay = Pendulum(0), Replay(5000, 1)
    agent = TD3(device)
    rng = np.random.default_rng(2)
    obs, ret = env.reset(), 0.0
    for step in range(340):
        if step < 300:
            act = rng.uniform(-1, 1, ACT).astype(np.float32)
        else:
            act = agent.act(obs) + 0.1 * rng.normal(size=ACT).astype(np.float32)
        nxt, rew, done = env.step(act)
        replay.add(obs, np.clip(act, -1, 1), nxt, rew, float(done))
        obs, ret = (env.reset(), 0.0) if done else (nxt, ret + rew)
        if step >= 300:
            agent.update(replay.sample(BATCH, device))
            torch_xla.sync()
        if step >= 300 and step % 20 == 19:
            print(step, {k: round(v.item(), 4) for k, v in agent.stats.items()})


if __name__ == "__main__":
    main()
