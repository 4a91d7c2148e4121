"""Double DQN with prioritized replay on a small grid corridor."""
import random
from collections import namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import torch_xla
import torch_xla.core.xla_model as xm

Batch = namedtuple("Batch", "obs act rew nxt done")


class Corridor:
    """Walk right to the goal; pits reset to the start. Observation is position + noise features."""

    def __init__(self, n=12, seed=0):
        self.n, self.rng = n, np.random.RandomState(seed)
        self.pits = {4, 7}

    def _obs(self):
        o = np.zeros(self.n + 2, np.float32)
        o[self.pos] = 1.0
        o[-2:] = self.rng.randn(2) * 0.1
        return o

    def reset(self):
        self.pos, self.t = 0, 0
        return self._obs()

    def step(self, a):
        self.t += 1
        self.pos = int(np.clip(self.pos + (-1, 1, 2)[a], 0, self.n - 1))
        if self.pos in self.pits:
            return self._obs(), -1.0, True
        if self.pos == self.n - 1:
            return self._obs(), 1.0, True
        return self._obs(), -0.01, self.t >= 40


class PrioritizedReplay:
    def __init__(self, capacity, obs_dim, alpha=0.6):
        self.cap, self.alpha = capacity, alpha
        self.obs = np.zeros((capacity, obs_dim), np.float32)
        self.nxt = np.zeros((capacity, obs_dim), np.float32)
        self.act = np.zeros(capacity, np.int64)
        self.rew = np.zeros(capacity, np.float32)
        self.done = np.zeros(capacity, np.float32)
        self.prio = np.zeros(capacity, np.float64)
        self.ptr, self.size = 0, 0

    def add(self, o, a, r, n, d):
        i = self.ptr
        self.obs[i], self.act[i], self.rew[i], self.nxt[i], self.done[i] = o, a, r, n, d
        self.prio[i] = self.prio.max() or 1.0
        self.ptr = (i + 1) % self.cap
        self.size = min(self.size + 1, self.cap)

    def sample(self, n):
        p = self.prio[:self.size] ** self.alpha
        p /= p.sum()
        idx = np.random.choice(self.size, n, p=p)
        cols = [torch.from_numpy(c[idx]) for c in (self.obs, self.act, self.rew, self.nxt, self.done)]
        return Batch(*cols), torch.from_numpy(p[idx].astype(np.float32)), idx

    def update(self, idx, td):
        self.prio[idx] = np.abs(td) + 1e-3


class Dueling(nn.Module):
    def __init__(self, d, actions, h=48):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(d, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU())
        self.adv, self.val = nn.Linear(h, actions), nn.Linear(h, 1)

    def forward(self, x):
        h = self.body(x)
        a = self.adv(h)
        return self.val(h) + a - a.mean(1, keepdim=True)


class Agent:
    gamma, tau, batch, beta0 = 0.97, 0.02, 32, 0.4

    def __init__(self, obs_dim, actions, horizon):
        self.dev = xm.xla_device()
        self.q = Dueling(obs_dim, actions).to(self.dev)
        self.target = Dueling(obs_dim, actions).to(self.dev)
        self.target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.Adam(self.q.parameters(), lr=2e-3)
        self.horizon = horizon
        self.updates = 0

    def act(self, obs, eps):
        if random.random() < eps:
            return random.randrange(3)
        with torch.no_grad():
            q = self.q(torch.from_numpy(obs)[None].to(self.dev))
        return int(q.cpu().argmax())

    @property
    def beta(self):
        return min(1.0, self.beta0 + (1 - self.beta0) * self.updates / self.horizon)

    def learn(self, replay):
        batch, prob, idx = replay.sample(self.batch)
        obs, act, rew, nxt, done = (t.to(self.dev) for t in batch)
        prob = prob.to(self.dev)

        with torch.no_grad():
            best = self.q(nxt).argmax(1, keepdim=True)
            boot = self.target(nxt).gather(1, best).squeeze(1)
            goal = rew + self.gamma * (1 - done) * boot
            weight = (replay.size * prob).pow(-self.beta)
            weight = weight / weight.max()
        pred = self.q(obs).gather(1, act[:, None]).squeeze(1)
        td = goal - pred
        loss = (weight * F.smooth_l1_loss(pred, goal, reduction="none")).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for t, p in zip(self.target.parameters(), self.q.parameters()):
                t.lerp_(p, self.tau)
        torch_xla.sync()
        replay.update(idx, td.detach().cpu().numpy())
        self.updates += 1


def main(frames=240, learn_every=6):
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    env = Corridor()
    agent = Agent(env.n + 2, 3, horizon=60)
    replay = PrioritizedReplay(512, env.n + 2)
    obs, ret, returns = env.reset(), 0.0, []
    for f in range(frames):
        a = agent.act(obs, eps=max(0.1, 1 - f / 200))
        nxt, r, done = env.step(a)
        replay.add(obs, a, r, nxt, float(done))
        obs, ret = nxt, ret + r
        if done:
            returns.append(ret)
            obs, ret = env.reset(), 0.0
        if f >= 96 and f % learn_every == 0:
            agent.learn(replay)
        if f % 60 == 59:
            print(f, "mean return", round(float(np.mean(returns[-15:])), 3), flush=True)


if __name__ == "__main__":
    main()
