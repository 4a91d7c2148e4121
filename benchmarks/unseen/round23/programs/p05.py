"""DQN on a toy grid; transitions are kept on the accelerator."""
import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

N = 5
ACTIONS = [(-1, 0), (1, 0), (0, -1), (0, 1)]


class Grid:
    def __init__(self, seed):
        self.rng = random.Random(seed)

    def reset(self):
        self.pos = [self.rng.randrange(N), self.rng.randrange(N)]
        self.goal = [self.rng.randrange(N), self.rng.randrange(N)]
        self.t = 0
        return self.obs()

    def obs(self):
        v = np.zeros(4 * N, dtype=np.float32)
        for k, c in enumerate(self.pos + self.goal):
            v[k * N + c] = 1.0
        return v

    def step(self, a):
        dy, dx = ACTIONS[a]
        self.pos[0] = min(N - 1, max(0, self.pos[0] + dy))
        self.pos[1] = min(N - 1, max(0, self.pos[1] + dx))
        self.t += 1
        done = self.pos == self.goal
        return self.obs(), (1.0 if done else -0.05), done, done or self.t >= 20


class Replay:
    def __init__(self, capacity, obs_dim, device):
        self.capacity, self.device = capacity, device
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.nxt = torch.zeros(capacity, obs_dim, device=device)
        self.act = torch.zeros(capacity, dtype=torch.long, device=device)
        self.rew = torch.zeros(capacity, device=device)
        self.done = torch.zeros(capacity, device=device)
        self.ptr, self.size = 0, 0

    def extend(self, rows):
        o, a, r, n, d = zip(*rows)
        k, p = len(rows), self.ptr
        sl = slice(p, p + k)
        self.obs[sl] = torch.from_numpy(np.stack(o)).to(self.device)
        self.nxt[sl] = torch.from_numpy(np.stack(n)).to(self.device)
        self.act[sl] = torch.tensor(a).to(self.device)
        self.rew[sl] = torch.tensor(r, dtype=torch.float32).to(self.device)
        self.done[sl] = torch.tensor(d, dtype=torch.float32).to(self.device)
        self.ptr = (p + k) % self.capacity
        self.size = min(self.size + k, self.capacity)

    def sample(self, n):
        i = torch.randint(0, self.size, (n,)).to(self.device)
        return self.obs[i], self.act[i], self.rew[i], self.nxt[i], self.done[i]


def mlp(sizes):
    layers = []
    for i, o in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(i, o), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def td_loss(q, target, batch, gamma):
    o, a, r, n, d = batch
    with torch.no_grad():
        best = q(n).argmax(-1, keepdim=True)
        y = r + gamma * (1 - d) * target(n).gather(1, best)[:, 0]
    return nn.functional.smooth_l1_loss(q(o).gather(1, a[:, None])[:, 0], y)


def main(iterations=36, collect=8, batch=32, gamma=0.95, tau=0.05, capacity=512):
    random.seed(3)
    torch.manual_seed(3)
    device = torch_xla.device()
    env = Grid(3)
    q, target = mlp([4 * N, 32, 4]).to(device), mlp([4 * N, 32, 4]).to(device)
    target.load_state_dict(q.state_dict())
    actor = mlp([4 * N, 32, 4])
    opt = torch.optim.Adam(q.parameters(), lr=2e-3)
    memory = Replay(capacity, 4 * N, device)
    torch_xla.sync()

    returns, ret, obs = deque(maxlen=20), 0.0, env.reset()
    for it in range(1, iterations + 1):
        eps = max(0.1, 1.0 - it / 30)
        rows = []
        with torch.no_grad():
            for _ in range(collect):
                if random.random() < eps:
                    a = random.randrange(4)
                else:
                    a = int(actor(torch.from_numpy(obs)).argmax())
                nxt, r, done, over = env.step(a)
                rows.append((obs, a, r, nxt, float(done)))
                ret += r
                obs = nxt
                if over:
                    returns.append(ret)
                    ret, obs = 0.0, env.reset()
        memory.extend(rows)
        loss = td_loss(q, target, memory.sample(batch), gamma)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt)
        with torch.no_grad():
            for t, p in zip(target.parameters(), q.parameters()):
                t.lerp_(p, tau)
        xm.mark_step()
        if it % 5 == 0:
            actor.load_state_dict({k: v.cpu() for k, v in q.state_dict().items()})
            print(f"it {it:3d} loss {loss.item():.4f} return {np.mean(returns or [0]):+.2f}")


if __name__ == "__main__":
    main()
