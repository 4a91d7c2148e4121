# DQN on a small corridor environment. Transitions live in host memory, learning runs on the device.
import random
from collections import namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

Batch = namedtuple("Batch", "obs act rew nxt done")


class VecCorridor:
    """n independent agents walk on a line with a drift; +1 at the right end, -1 at the left."""

    def __init__(self, n, length=12, seed=0):
        self.n, self.length = n, length
        self.rng = np.random.RandomState(seed)
        self.pos = np.zeros(n)
        self.vel = np.zeros(n)
        self.reset(np.ones(n, bool))

    def reset(self, which):
        self.pos[which] = self.rng.uniform(-1, 1, which.sum())
        self.vel[which] = 0
        return self.obs()

    def obs(self):
        goal = np.full(self.n, self.length / 2)
        return np.stack([self.pos / goal, self.vel, np.abs(self.pos) / goal], 1).astype(np.float32)

    def step(self, a):
        self.vel = 0.8 * self.vel + (a - 1) * 0.5 + 0.1 * self.rng.randn(self.n)
        self.pos = self.pos + self.vel
        right, left = self.pos > self.length / 2, self.pos < -self.length / 2
        rew = right.astype(np.float32) - left.astype(np.float32) - 0.01
        done = right | left
        nxt = self.obs()
        if done.any():
            self.reset(done)
        return nxt, rew.astype(np.float32), done.astype(np.float32)


class Replay:
    def __init__(self, cap, obs_dim):
        self.cap, self.size, self.i = cap, 0, 0
        self.obs = np.zeros((cap, obs_dim), np.float32)
        self.nxt = np.zeros((cap, obs_dim), np.float32)
        self.act = np.zeros(cap, np.int64)
        self.rew = np.zeros(cap, np.float32)
        self.done = np.zeros(cap, np.float32)

    def add(self, o, a, r, n, d):
        for row in zip(o, a, r, n, d):
            self.obs[self.i], self.act[self.i], self.rew[self.i], self.nxt[self.i], self.done[self.i] = row
            self.i = (self.i + 1) % self.cap
            self.size = min(self.size + 1, self.cap)

    def sample(self, n, device):
        j = np.random.randint(0, self.size, n)
        cols = (self.obs[j], self.act[j], self.rew[j], self.nxt[j], self.done[j])
        return Batch(*[torch.from_numpy(c).to(device) for c in cols])


def qnet():
    return nn.Sequential(nn.Linear(3, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 3))


def act(net, obs, eps, device):
    with torch.no_grad():
        greedy = net(torch.from_numpy(obs).to(device)).argmax(1)
    torch_xla.sync()
    a = greedy.cpu().numpy()
    explore = np.random.rand(len(a)) < eps
    a[explore] = np.random.randint(0, 3, explore.sum())
    return a


def learn(net, target, opt, b, gamma=0.97):
    with torch.no_grad():
        best = net(b.nxt).argmax(1, keepdim=True)
        y = b.rew + gamma * (1 - b.done) * target(b.nxt).gather(1, best).squeeze(1)
    q = net(b.obs).gather(1, b.act[:, None]).squeeze(1)
    loss = F.smooth_l1_loss(q, y)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 10.0)
    opt.step()
    torch_xla.sync()
    return loss


if __name__ == "__main__":
    random.seed(1); np.random.seed(1); torch.manual_seed(1)
    device = torch_xla.device()
    env, mem = VecCorridor(8), Replay(4000, 3)
    net, target = qnet().to(device), qnet().to(device)
    target.load_state_dict(net.state_dict())
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    torch_xla.sync()

    obs, returns = env.obs(), []
    for t in range(400):
        eps = max(0.05, 1.0 - t / 200)
        a = act(net, obs, eps, device)
        nxt, r, d = env.step(a)
        mem.add(obs, a, r, nxt, d)
        obs = np.where(d[:, None] > 0, env.obs(), nxt)
        returns.append(r.mean())
        if mem.size >= 256:
            loss = learn(net, target, opt, mem.sample(64, device))
        if t % 50 == 49:
            target.load_state_dict(net.state_dict())
            torch_xla.sync()
            print(f"t={t} eps={eps:.2f} reward={np.mean(returns[-50:]):.3f} loss={loss.item():.4f}")
