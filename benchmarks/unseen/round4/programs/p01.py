"""DQN on a small cart-pole written in numpy; the network and its updates run on the XLA device."""
import math
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

GAMMA = 0.99
BATCH = 32
TAU = 0.01
UPDATES = 20
ENV_STEPS_PER_UPDATE = 5


class CartPole:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.s = self.rng.uniform(-0.05, 0.05, 4)
        self.t = 0
        return self.s.copy()

    def step(self, action):
        x, v, th, w = self.s
        force = 10.0 if action else -10.0
        tmp = (force + 0.05 * w * w * math.sin(th)) / 1.1
        alpha = (9.8 * math.sin(th) - math.cos(th) * tmp) / (0.5 * (4 / 3 - 0.1 * math.cos(th) ** 2 / 1.1))
        acc = tmp - 0.05 * alpha * math.cos(th) / 1.1
        self.s = np.array([x + 0.02 * v, v + 0.02 * acc, th + 0.02 * w, w + 0.02 * alpha])
        self.t += 1
        done = abs(self.s[0]) > 2.4 or abs(self.s[2]) > 0.21 or self.t >= 200
        return self.s.copy(), 1.0, done


class ReplayBuffer:
    def __init__(self, capacity):
        self.data = deque(maxlen=capacity)

    def push(self, *transition):
        self.data.append(transition)

    def __len__(self):
        return len(self.data)

    def sample(self, n):
        picked = random.sample(self.data, min(n, len(self.data)))
        s, a, r, s2, d = zip(*picked)
        return (torch.tensor(np.stack(s), dtype=torch.float32), torch.tensor(a),
                torch.tensor(r), torch.tensor(np.stack(s2), dtype=torch.float32),
                torch.tensor(d, dtype=torch.float32))


class QNet(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.value = nn.Linear(hidden, 1)
        self.adv = nn.Linear(hidden, 2)

    def forward(self, s):
        h = self.body(s)
        adv = self.adv(h)
        return self.value(h) + adv - adv.mean(1, keepdim=True)


class Agent:
    def __init__(self, device):
        self.device = device
        self.online = QNet().to(device)
        self.target = QNet().to(device)
        self.target.load_state_dict({k: v.cpu() for k, v in self.online.state_dict().items()})
        self.actor = QNet()  # the actor lives on the host, it sees one state at a time
        self.opt = torch.optim.Adam(self.online.parameters(), lr=1e-3)

    def refresh_actor(self):
        self.actor.load_state_dict({k: v.cpu() for k, v in self.online.state_dict().items()})

    @torch.no_grad()
    def act(self, state, eps):
        if random.random() < eps:
            return random.randrange(2)
        return int(self.actor(torch.tensor(state, dtype=torch.float32)[None]).argmax())

    def update(self, batch):
        s, a, r, s2, d = (t.to(self.device) for t in batch)
        with torch.no_grad():
            best = self.online(s2).argmax(1, keepdim=True)
            y = r + GAMMA * (1 - d) * self.target(s2).gather(1, best).squeeze(1)
        q = self.online(s).gather(1, a[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for p, t in zip(self.online.parameters(), self.target.parameters()):
                t.lerp_(p, TAU)
        torch_xla.sync()
        return loss


def main():
    random.seed(0)
    torch.manual_seed(0)
    agent = Agent(torch_xla.device())
    torch_xla.sync()
    env, buffer = CartPole(0), ReplayBuffer(2000)
    state = env.reset()
    for it in range(UPDATES):
        eps = max(0.1, 1.0 - it / 15)
        for _ in range(ENV_STEPS_PER_UPDATE):
            a = agent.act(state, eps)
            nxt, r, done = env.step(a)
            buffer.push(state, a, r, nxt, done)
            state = env.reset() if done else nxt
        loss = agent.update(buffer.sample(BATCH))
        if it % 5 == 4:
            agent.refresh_actor()
            print(f"update {it + 1:3d} buffer {len(buffer):4d} eps {eps:.2f} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
