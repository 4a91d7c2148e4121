import random
from collections import namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch_xla

Transition = namedtuple("Transition", "obs action reward next_obs done")


class Corridor:
    """Agent walks on a line with drifting wind; reward at the right end."""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)

    def reset(self):
        self.pos, self.wind, self.t = 0.0, self.rng.uniform(-.3, .3), 0
        return self.obs()

    def obs(self):
        return np.array([self.pos, self.wind, self.t / 30.0, 1.0], dtype=np.float32)

    def step(self, a):
        self.t += 1
        self.wind = np.clip(self.wind + 0.05 * self.rng.randn(), -.5, .5)
        self.pos = np.clip(self.pos + (a - 1) * 0.2 + 0.1 * self.wind, -1, 1)
        done = self.t >= 30 or self.pos >= 0.95
        return self.obs(), float(self.pos >= 0.95) - 0.01, done


class PrioritizedReplay:
    def __init__(self, capacity, alpha=0.6, seed=0):
        self.capacity, self.alpha = capacity, alpha
        self.data = []
        self.prio = np.zeros(capacity, dtype=np.float64)
        self.head = 0
        self.rng = np.random.RandomState(seed)

    def push(self, tr):
        p = self.prio[:len(self.data)].max() if self.data else 1.0
        if len(self.data) < self.capacity:
            self.data.append(tr)
        else:
            self.data[self.head] = tr
        self.prio[self.head] = p
        self.head = (self.head + 1) % self.capacity

    def sample(self, n):
        p = self.prio[:len(self.data)] ** self.alpha
        p /= p.sum()
        idx = self.rng.choice(len(self.data), n, p=p)
        cols = zip(*[self.data[i] for i in idx])
        obs, act, rew, nxt, done = [np.stack(c) for c in cols]
        arrays = (obs, act.astype(np.int64), rew.astype(np.float32), nxt, done.astype(np.float32),
                  (p[idx] * len(self.data)).astype(np.float32))
        return idx, [torch.from_numpy(np.ascontiguousarray(a)) for a in arrays]

    def update(self, idx, td):
        self.prio[idx] = np.abs(td) + 1e-3


class Dueling(nn.Module):
    def __init__(self, obs=4, actions=3, hid=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs, hid), nn.ReLU(), nn.Linear(hid, hid), nn.ReLU())
        self.adv, self.val = nn.Linear(hid, actions), nn.Linear(hid, 1)

    def forward(self, x):
        h = self.trunk(x)
        a = self.adv(h)
        return self.val(h) + a - a.mean(-1, keepdim=True)


class Agent:
    gamma = 0.97
    beta0, beta_steps = 0.4, 4000
    target_every = 20

    def __init__(self, device):
        self.device = device
        self.online, self.target = Dueling().to(device), Dueling().to(device)
        self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.RMSprop(self.online.parameters(), lr=1e-3)
        self.updates = 0

    def act(self, obs, eps):
        if random.random() < eps:
            return random.randrange(3)
        with torch.no_grad():
            q = self.online(torch.from_numpy(obs).unsqueeze(0).to(self.device))
            best = q.argmax(-1)
        torch_xla.sync()
        return int(best.cpu()[0])

    def beta(self):
        return min(1.0, self.beta0 + (1.0 - self.beta0) * self.updates / self.beta_steps)

    def learn(self, memory, batch=32):
        idx, cols = memory.sample(batch)
        obs, act, rew, nxt, done, density = [c.to(self.device) for c in cols]
        with torch.no_grad():
            best = self.online(nxt).argmax(-1, keepdim=True)
            boot = self.target(nxt).gather(1, best).squeeze(1)
            y = rew + self.gamma * (1 - done) * boot
            weight = density ** (-self.beta())
            weight = weight / weight.max()
        q = self.online(obs).gather(1, act.unsqueeze(1)).squeeze(1)
        td = y - q
        loss = (weight * td.pow(2)).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        memory.update(idx, td.detach().cpu().numpy())
        self.updates += 1
        if self.updates % self.target_every == 0:
            self.target.load_state_dict(self.online.state_dict())


def main(total=156, warmup=60):
    random.seed(3)
    torch.manual_seed(3)
    env, memory = Corridor(3), PrioritizedReplay(512)
    agent = Agent(torch_xla.device())
    obs, ret, returns = env.reset(), 0.0, []
    for t in range(total):
        a = agent.act(obs, eps=max(0.1, 1 - t / 150))
        nxt, r, done = env.step(a)
        memory.push(Transition(obs, a, r, nxt, done))
        obs, ret = nxt, ret + r
        if done:
            returns.append(ret)
            obs, ret = env.reset(), 0.0
        if t >= warmup and t % 4 == 0:
            agent.learn(memory)
    print("episodes %d  mean return %.3f" % (len(returns), float(np.mean(returns))))


if __name__ == "__main__":
    main()
