import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

GAMMA = 0.97
N_ENVS = 16
EVAL_ENVS = 4
LEARN_EVERY = 1
TARGET_EVERY = 20
EVAL_EVERY = 150
WARMUP = 20
TOTAL = 900
BATCH = 64


class PoleBatch:
    """Vectorised cart-pole, plain numpy."""

    def __init__(self, n, seed, limit=100):
        self.n, self.limit = n, limit
        self.rng = np.random.default_rng(seed)
        self.s = np.zeros((n, 4), np.float32)
        self.t = np.zeros(n, int)
        self.reset(np.ones(n, bool))

    def reset(self, which):
        self.s[which] = self.rng.uniform(-0.05, 0.05, (which.sum(), 4))
        self.t[which] = 0
        return self.s.copy()

    def step(self, a):
        x, v, th, w = self.s.T
        force = np.where(a == 1, 10.0, -10.0)
        tmp = (force + 0.05 * w ** 2 * np.sin(th)) / 1.1
        acc_th = (9.8 * np.sin(th) - np.cos(th) * tmp) / (0.5 * (4 / 3 - 0.1 * np.cos(th) ** 2 / 1.1))
        acc = tmp - 0.05 * acc_th * np.cos(th) / 1.1
        self.s = np.stack([x + 0.02 * v, v + 0.02 * acc, th + 0.02 * w, w + 0.02 * acc_th], 1).astype(np.float32)
        self.t += 1
        fail = (np.abs(self.s[:, 0]) > 2.4) | (np.abs(self.s[:, 2]) > 0.21)
        nxt = self.s.copy()
        over = fail | (self.t >= self.limit)
        self.reset(over)
        return nxt, np.ones(self.n, np.float32), fail, over


class Dueling(nn.Module):

    def __init__(self, obs=4, act=2, h=64):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU())
        self.value, self.adv = nn.Linear(h, 1), nn.Linear(h, act)

    def forward(self, s):
        z = self.trunk(s)
        a = self.adv(z)
        return self.value(z) + a - a.mean(1, keepdim=True)


class Agent:

    def __init__(self, device):
        self.device = device
        self.q, self.target = Dueling().to(device), Dueling().to(device)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=2e-3)
        self.sync_target()

    def sync_target(self):
        self.target.load_state_dict(self.q.state_dict())
        torch_xla.sync()

    def act(self, obs, eps):
        with torch.no_grad():
            greedy = self.q(torch.from_numpy(obs).to(self.device)).argmax(1)
        torch_xla.sync()
        a = greedy.cpu().numpy()
        explore = np.random.rand(len(obs)) < eps
        return np.where(explore, np.random.randint(0, 2, len(obs)), a)

    def learn(self, batch):
        s, a, r, s2, done = (torch.from_numpy(np.stack(c)).to(self.device) for c in zip(*batch))
        with torch.no_grad():
            best = self.q(s2).argmax(1, keepdim=True)
            y = r + GAMMA * (1 - done) * self.target(s2).gather(1, best).squeeze(1)
        pred = self.q(s).gather(1, a[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(pred, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss


def evaluate(agent, seed):
    env = PoleBatch(EVAL_ENVS, seed)
    obs, alive, length = env.s.copy(), np.ones(EVAL_ENVS, bool), np.zeros(EVAL_ENVS)
    for _ in range(env.limit):
        length += alive
        _, _, _, over = env.step(agent.act(obs, 0.0))
        alive &= ~over
        obs = env.s.copy()
        if not alive.any():
            break
    return length.mean()


def main():
    for seeder in (random.seed, np.random.seed, torch.manual_seed):
        seeder(4)
    agent = Agent(torch_xla.device())
    env, memory, learned = PoleBatch(N_ENVS, 0), deque(maxlen=5000), 0
    obs = env.s.copy()
    for t in range(1, TOTAL + 1):
        eps = max(0.05, 1.0 - t / 400)
        a = agent.act(obs, eps)
        nxt, r, fail, _ = env.step(a)
        for i in range(N_ENVS):
            memory.append((obs[i], np.int64(a[i]), r[i], nxt[i], np.float32(fail[i])))
        obs = env.s.copy()
        if t > WARMUP and t % LEARN_EVERY == 0:
            loss = agent.learn(random.sample(memory, BATCH))
            learned += 1
            if learned % TARGET_EVERY == 0:
                agent.sync_target()
        if t % EVAL_EVERY == 0:
            print(f"t={t} eps={eps:.2f} loss={loss.item():.4f} greedy length={evaluate(agent, t):.1f}")


if __name__ == "__main__":
    main()
