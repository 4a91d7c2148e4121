"""TD3 on a point-mass task, environment on the host and networks on the device."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class PointMass:
    def __init__(self, n, seed):
        self.n, self.rng = n, np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.pos = self.rng.uniform(-1, 1, (self.n, 2)).astype(np.float32)
        self.vel = np.zeros((self.n, 2), np.float32)
        return self.obs()

    def obs(self):
        return np.concatenate([self.pos, self.vel], 1)

    def step(self, action):
        self.vel = 0.9 * self.vel + 0.1 * action
        self.pos = np.clip(self.pos + self.vel, -2, 2).astype(np.float32)
        return self.obs(), -np.linalg.norm(self.pos, axis=1).astype(np.float32)


class Replay:
    def __init__(self, size, rng):
        self.size, self.rng, self.n, self.i = size, rng, 0, 0
        self.s = np.zeros((size, 4), np.float32)
        self.a = np.zeros((size, 2), np.float32)
        self.r = np.zeros((size, 1), np.float32)
        self.s2 = np.zeros((size, 4), np.float32)

    def add(self, s, a, r, s2):
        for row in zip(s, a, r, s2):
            self.s[self.i], self.a[self.i], self.r[self.i], self.s2[self.i] = row
            self.i = (self.i + 1) % self.size
            self.n = min(self.n + 1, self.size)

    def sample(self, k, device):
        idx = self.rng.integers(0, self.n, k)
        return [torch.from_numpy(m[idx]).to(device) for m in (self.s, self.a, self.r, self.s2)]


def mlp(nin, nout, hidden=32):
    return nn.Sequential(nn.Linear(nin, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                         nn.Linear(hidden, nout))


class TD3:
    def __init__(self, device, gamma=0.97, tau=0.02, policy_delay=2):
        self.device, self.gamma, self.tau, self.policy_delay = device, gamma, tau, policy_delay
        self.actor = mlp(4, 2).to(device)
        self.critics = nn.ModuleList([mlp(6, 1), mlp(6, 1)]).to(device)
        self.actor_t, self.critics_t = copy.deepcopy(self.actor), copy.deepcopy(self.critics)
        self.a_opt = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.c_opt = torch.optim.Adam(self.critics.parameters(), lr=1e-3)
        self.updates = 0

    @torch.no_grad()
    def act(self, obs):
        return torch.tanh(self.actor(torch.from_numpy(obs).to(self.device))).cpu().numpy()

    def update(self, s, a, r, s2):
        with torch.no_grad():
            noise = (0.2 * torch.randn_like(a)).clamp(-0.5, 0.5)
            a2 = (torch.tanh(self.actor_t(s2)) + noise).clamp(-0.99, 0.99)
            x2 = torch.cat([s2, a2], 1)
            target = r + self.gamma * torch.min(self.critics_t[0](x2), self.critics_t[1](x2))
        x = torch.cat([s, a], 1)
        c_loss = sum(F.mse_loss(c(x), target) for c in self.critics)
        self.c_opt.zero_grad()
        c_loss.backward()
        self.c_opt.step()
        if self.updates % self.policy_delay == 0:
            a_loss = -self.critics[0](torch.cat([s, torch.tanh(self.actor(s))], 1)).mean()
            self.a_opt.zero_grad()
            a_loss.backward()
            self.a_opt.step()
            with torch.no_grad():
                for net, tgt in ((self.actor, self.actor_t), (self.critics, self.critics_t)):
                    for p, q in zip(net.parameters(), tgt.parameters()):
                        q.lerp_(p, self.tau)
        self.updates += 1
        torch_xla.sync()
        return c_loss


def evaluate(agent, steps=8):
    env, total = PointMass(8, seed=99), 0.0
    obs = env.reset()
    for _ in range(steps):
        obs, r = env.step(agent.act(obs))
        total += r.mean()
    return total / steps


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    agent, env, replay = TD3(torch_xla.device()), PointMass(4, seed=1), Replay(512, rng)
    obs = env.reset()
    print(f"before training: return {evaluate(agent):.3f}")
    for step in range(36):
        action = np.clip(agent.act(obs) + 0.1 * rng.standard_normal((4, 2)), -1, 1).astype(np.float32)
        nxt, reward = env.step(action)
        replay.add(obs, action, reward[:, None], nxt)
        obs = env.reset() if step % 12 == 11 else nxt
        c_loss = agent.update(*replay.sample(16, agent.device))
        if step % 12 == 11:
            print(f"step {step} critic {c_loss.item():.4f} return {evaluate(agent):.3f}")


if __name__ == "__main__":
    main()
