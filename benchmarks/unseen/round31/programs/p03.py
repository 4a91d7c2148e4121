"""Double DQN for a small inventory problem: order stock for a few products at once, demand is random."""
import copy
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_SHOPS = 8
OBS = 6
ACTIONS = 5
WARMUP = 6
TRAIN_EVERY = 2
TARGET_EVERY = 10
EVAL_EVERY = 12
STEPS = 70
BATCH = 32


class Inventory:
    """Vector of shops; the observation is stock, orders on the road, and the season."""

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.n = n
        self.reset()

    def reset(self):
        self.stock = self.rng.uniform(0, 5, self.n)
        self.road = np.zeros((self.n, 2))
        self.t = 0
        return self.observe()

    def observe(self):
        s = 2 * np.pi * self.t / 20
        season = np.stack([np.full(self.n, np.sin(s)), np.full(self.n, np.cos(s))], 1)
        return np.concatenate([self.stock[:, None] / 5, self.road / 5, season, np.ones((self.n, 1))],
                              1).astype(np.float32)

    def step(self, order):
        self.stock += self.road[:, 0]
        self.road = np.stack([self.road[:, 1], order.astype(float)], 1)
        demand = self.rng.poisson(2.0 + np.sin(2 * np.pi * self.t / 20), self.n)
        sold = np.minimum(self.stock, demand)
        self.stock = np.clip(self.stock - sold, 0, 20)
        self.t += 1
        reward = sold - 0.2 * self.stock - 0.1 * (order > 0)
        return self.observe(), reward.astype(np.float32), self.t % 30 == 0


class Dueling(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.value = nn.Linear(hidden, 1)
        self.adv = nn.Linear(hidden, ACTIONS)

    def forward(self, obs):
        h = self.body(obs)
        a = self.adv(h)
        return self.value(h) + a - a.mean(-1, keepdim=True)


class Agent:
    def __init__(self, device):
        self.device = device
        self.online = Dueling().to(device)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.opt = torch.optim.Adam(self.online.parameters(), lr=1e-3)
        self.updates = 0

    @torch.no_grad()
    def act(self, obs, eps):
        if random.random() < eps:
            return np.random.randint(0, ACTIONS, len(obs))
        q = self.online(torch.from_numpy(obs).to(self.device))
        best = q.argmax(-1)
        torch_xla.sync()
        return best.cpu().numpy()

    def learn(self, rows, gamma):
        obs, act, rew, nxt, done = (torch.from_numpy(np.stack(c)).to(self.device) for c in zip(*rows))
        with torch.no_grad():
            pick = self.online(nxt).argmax(-1, keepdim=True)
            goal = rew + gamma * (1.0 - done) * self.target(nxt).gather(1, pick).squeeze(1)
        q = self.online(obs).gather(1, act[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, goal)
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.online.parameters(), 10.0)
        self.opt.step()
        self.updates += 1
        if self.updates % TARGET_EVERY == 0:
            self.target.load_state_dict(self.online.state_dict())
        torch_xla.sync()
        return loss.detach()


def evaluate(agent, seed, horizon=5):
    env = Inventory(N_SHOPS, seed)
    obs, total = env.reset(), 0.0
    for _ in range(horizon):
        obs, reward, _ = env.step(agent.act(obs, 0.0))
        total += reward.mean()
    return total / horizon


def main():
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    agent = Agent(torch_xla.device())
    env = Inventory(N_SHOPS, 11)
    replay = deque(maxlen=400)
    obs = env.reset()
    loss = None

    for step in range(STEPS):
        eps = max(0.1, 1.0 - step / 30)
        action = agent.act(obs, eps)
        nxt, reward, done = env.step(action)
        for i in range(N_SHOPS):
            replay.append((obs[i], np.int64(action[i]), reward[i], nxt[i], np.float32(done)))
        obs = env.reset() if done else nxt

        if step >= WARMUP and step % TRAIN_EVERY == 0:
            for _ in range(2):
                loss = agent.learn(random.sample(replay, BATCH), gamma=0.97)
        if (step + 1) % EVAL_EVERY == 0:
            print(f"step {step + 1} eps {eps:.2f} loss {loss.item():.4f} eval {evaluate(agent, step):.3f}")


if __name__ == "__main__":
    main()
