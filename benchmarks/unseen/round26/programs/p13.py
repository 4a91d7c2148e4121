"""Double DQN with a dueling head on a small stochastic gridworld.

Replay lives on the host; the networks live on the XLA device.
"""
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class WindyGrid:
    moves = [(0, 1), (0, -1), (1, 0), (-1, 0)]

    def __init__(self, n=4, max_steps=10, wind=0.1, rng=None):
        self.n, self.max_steps, self.wind = n, max_steps, wind
        self.rng = rng or np.random.RandomState(0)

    def _obs(self):
        o = np.zeros(2 * self.n, np.float32)
        o[self.pos[0]] = 1.0
        o[self.n + self.pos[1]] = 1.0
        return o

    def reset(self):
        self.pos = [int(self.rng.randint(self.n - 1)), int(self.rng.randint(self.n - 1))]
        self.t = 0
        return self._obs()

    def step(self, a):
        if self.rng.rand() < self.wind:
            a = int(self.rng.randint(4))
        dx, dy = self.moves[a]
        self.pos = [min(max(self.pos[0] + dx, 0), self.n - 1), min(max(self.pos[1] + dy, 0), self.n - 1)]
        self.t += 1
        goal = self.pos == [self.n - 1, self.n - 1]
        return self._obs(), 1.0 if goal else -0.02, goal, goal or self.t >= self.max_steps


class Dueling(nn.Module):
    def __init__(self, obs, actions, hidden=24):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.v = nn.Linear(hidden, 1)
        self.a = nn.Linear(hidden, actions)

    def forward(self, x):
        h = self.body(x)
        a = self.a(h)
        return self.v(h) + a - a.mean(-1, keepdim=True)


class Replay:
    def __init__(self, cap):
        self.data = deque(maxlen=cap)

    def push(self, *tr):
        self.data.append(tr)

    def sample(self, n):
        s, a, r, s2, d = zip(*random.sample(self.data, n))
        return (torch.from_numpy(np.stack(s)), torch.tensor(a), torch.tensor(r, dtype=torch.float32),
                torch.from_numpy(np.stack(s2)), torch.tensor(d, dtype=torch.float32))


class Agent:
    def __init__(self, obs, actions, device, gamma=0.95, tau=0.02, lr=1e-3):
        self.device, self.gamma, self.tau, self.actions = device, gamma, tau, actions
        self.online = Dueling(obs, actions).to(device)
        self.target = Dueling(obs, actions).to(device)
        self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.Adam(self.online.parameters(), lr=lr)
        self.actor = Dueling(obs, actions)
        self.pull()

    def pull(self):
        self.actor.load_state_dict({k: v.cpu() for k, v in self.online.state_dict().items()})

    def act(self, s, eps):
        if random.random() < eps:
            return random.randrange(self.actions)
        with torch.no_grad():
            return int(self.actor(torch.from_numpy(s)[None]).argmax())

    def learn(self, batch):
        s, a, r, s2, d = (t.to(self.device) for t in batch)
        with torch.no_grad():
            best = self.online(s2).argmax(1, keepdim=True)
            y = r + self.gamma * (1 - d) * self.target(s2).gather(1, best).squeeze(1)
        q = self.online(s).gather(1, a[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for p, t in zip(self.online.parameters(), self.target.parameters()):
                t.lerp_(p, self.tau)
        return loss.detach()


def run(episodes=24, warm=24, batch=16, seed=3):
    random.seed(seed)
    torch.manual_seed(seed)
    env = WindyGrid(rng=np.random.RandomState(seed))
    agent = Agent(8, 4, xm.xla_device())
    memory = Replay(2000)
    returns = []
    for ep in range(episodes):
        s, done, total, loss = env.reset(), False, 0.0, None
        eps = max(0.05, 1.0 - ep / 16)
        while not done:
            a = agent.act(s, eps)
            s2, r, terminal, done = env.step(a)
            memory.push(s, a, r, s2, float(terminal))
            s, total = s2, total + r
            if len(memory.data) >= warm:
                loss = agent.learn(memory.sample(batch))
        xm.mark_step()
        agent.pull()
        returns.append(total)
        if ep % 6 == 0 and loss is not None:
            print(f"episode {ep} return {np.mean(returns[-6:]):.2f} td {loss.item():.4f}")


if __name__ == "__main__":
    run()
