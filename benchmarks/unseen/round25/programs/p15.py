import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

GAMMA = 0.97
EPISODES = 26
BATCH = 24
MAX_LEN = 16


class Pole:
    """Crude unstable pole, four state variables, two actions."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.s = self.rng.uniform(-0.1, 0.1, size=4)
        self.t = 0
        return self.s.astype(np.float32)

    def step(self, a):
        x, v, th, w = self.s
        f = 1.0 if a == 1 else -1.0
        w = w + 0.25 * (1.6 * th - f * 0.55) + 0.03 * self.rng.normal()
        v = v + 0.2 * f
        self.s = np.array([x + 0.2 * v, v, th + 0.35 * w, w])
        self.t += 1
        fail = bool(abs(self.s[2]) > 0.5 or abs(self.s[0]) > 3.0)
        return self.s.astype(np.float32), 1.0, fail, self.t >= MAX_LEN


class Replay:
    def __init__(self, cap):
        self.mem = deque(maxlen=cap)

    def add(self, *tr):
        self.mem.append(tr)

    def sample(self, n, device):
        rows = random.choices(self.mem, k=n)
        s, a, r, s2, d = zip(*rows)
        to = lambda x, t: torch.as_tensor(np.asarray(x), dtype=t).to(device)
        return (to(s, torch.float32), to(a, torch.int64), to(r, torch.float32),
                to(s2, torch.float32), to(d, torch.float32))


def qnet():
    return nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 2))


class Agent:
    def __init__(self, device):
        self.device = device
        self.q, self.target = qnet().to(device), qnet().to(device)
        self.target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.SGD(self.q.parameters(), lr=0.02, momentum=0.9)

    @torch.no_grad()
    def act(self, obs, eps):
        if random.random() < eps:
            return random.randrange(2)
        o = torch.from_numpy(obs).unsqueeze(0).to(self.device)
        return int(self.q(o).argmax(dim=1).cpu()[0])

    def update(self, batch):
        s, a, r, s2, d = batch
        with torch.no_grad():
            y = r + GAMMA * (1 - d) * self.target(s2).max(dim=1).values
        q = self.q(s).gather(1, a[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for pt, p in zip(self.target.parameters(), self.q.parameters()):
                pt.mul_(0.98).add_(p, alpha=0.02)
        return loss.detach()


def run_episode(env, agent, replay, eps):
    obs, done, steps = env.reset(), False, 0
    while not done:
        a = agent.act(obs, eps)
        nxt, rew, fail, timeout = env.step(a)
        replay.add(obs, a, rew, nxt, float(fail))
        obs, done, steps = nxt, fail or timeout, steps + 1
    return steps


if __name__ == "__main__":
    random.seed(4)
    torch.manual_seed(4)
    device = torch_xla.device()
    env, agent, replay = Pole(4), Agent(device), Replay(2000)
    for _ in range(4):
        run_episode(env, agent, replay, 1.0)
    for ep in range(EPISODES):
        eps = max(0.1, 0.9 - ep / EPISODES)
        length = run_episode(env, agent, replay, eps)
        # as many gradient steps as environment steps
        loss_sum = torch.zeros((), device=device)
        for _ in range(length):
            loss_sum = loss_sum + agent.update(replay.sample(BATCH, device))
        torch_xla.sync()
        print(f"episode {ep:3d} length {length:3d} td-loss {loss_sum.item() / length:.4f}")
