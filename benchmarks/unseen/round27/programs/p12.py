# Double DQN with proportional replay on a toy "corridor with wind" task.
# The replay memory is kept in device memory so that sampling needs no host copies.
import argparse
import random

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class Corridor:
    """1-D point that has to reach +1; action 0 left, 1 stay, 2 right."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.x, self.v, self.t = self.rng.uniform(-1, 0), 0.0, 0
        return self._obs()

    def _obs(self):
        return np.array([self.x, self.v, np.sin(3 * self.x), self.t / 40.0], dtype=np.float32)

    def step(self, action):
        self.t += 1
        self.v = 0.8 * self.v + 0.1 * (action - 1) + self.rng.normal(0, 0.02)
        self.x = float(np.clip(self.x + self.v, -2, 2))
        done = self.x > 1.0 or self.t >= 40
        return self._obs(), (1.0 if self.x > 1.0 else -0.02), done


class DeviceReplay:

    def __init__(self, capacity, obs_dim, device, alpha=0.6):
        self.device = device
        self.capacity, self.alpha = capacity, alpha
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.nxt = torch.zeros(capacity, obs_dim, device=device)
        self.act = torch.zeros(capacity, dtype=torch.long, device=device)
        self.rew = torch.zeros(capacity, device=device)
        self.done = torch.zeros(capacity, device=device)
        self.prio = torch.zeros(capacity, device=device)
        self.pos, self.size = 0, 0

    def push(self, obs, act, rew, nxt, done):
        row = torch.from_numpy(np.concatenate([obs, nxt, [act, rew, float(done)]]).astype(np.float32))
        row = row.to(self.device)
        d = self.obs.shape[1]
        where = self.pos
        self.obs[where] = row[:d]
        self.nxt[where] = row[d:2 * d]
        self.act[where] = row[2 * d].long()
        self.rew[where] = row[2 * d + 1]
        self.done[where] = row[2 * d + 2]
        self.prio[where] = torch.ones((), device=self.device)
        self.pos = (self.pos + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, n):
        scaled = self.prio[:self.size].pow(self.alpha)
        cdf = torch.cumsum(scaled, 0)
        u = torch.rand(n, device=self.device) * cdf[-1]
        idx = (cdf.unsqueeze(0) < u.unsqueeze(1)).sum(1)
        idx = idx.clamp(max=cdf.shape[0] - 1)
        return idx, self.obs[idx], self.act[idx], self.rew[idx], self.nxt[idx], self.done[idx]

    def update(self, idx, td):
        self.prio = self.prio.index_copy(0, idx, td.detach().abs() + 1e-3)


def mlp(inp, out, hidden=32):
    return nn.Sequential(nn.Linear(inp, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(),
                         nn.Linear(hidden, out))


def learn(args, online, target, opt, memory):
    idx, o, a, r, o2, d = memory.sample(args.batch)
    q = online(o).gather(1, a.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        best = online(o2).argmax(1, keepdim=True)
        y = r + args.gamma * (1 - d) * target(o2).gather(1, best).squeeze(1)
    loss = F.smooth_l1_loss(q, y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    memory.update(idx, q - y)
    with torch.no_grad():
        for pt, po in zip(target.parameters(), online.parameters()):
            pt.lerp_(po, args.tau)
    return loss.detach()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--env-steps", type=int, default=70)
    ap.add_argument("--start", type=int, default=16)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--gamma", type=float, default=0.97)
    ap.add_argument("--tau", type=float, default=0.02)
    args = ap.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    device = xm.xla_device()
    env = Corridor(0)
    online, target = mlp(4, 3).to(device), mlp(4, 3).to(device)
    target.load_state_dict(online.state_dict())
    opt = torch.optim.Adam(online.parameters(), lr=1e-3)
    memory = DeviceReplay(512, 4, device)
    obs, ret, loss = env.reset(), 0.0, None
    for t in range(args.env_steps):
        eps = max(0.1, 1.0 - t / 40)
        with torch.no_grad():
            q = online(torch.from_numpy(obs).to(device))
        greedy = int(q.argmax().item())
        action = random.randrange(3) if random.random() < eps else greedy
        nxt, rew, done = env.step(action)
        memory.push(obs, action, rew, nxt, done)
        ret += rew
        if t >= args.start:
            loss = learn(args, online, target, opt, memory)
        torch_xla.sync()
        obs = env.reset() if done else nxt
        if done:
            print(f"t={t} return={ret:.2f} loss={loss.item() if loss is not None else float('nan'):.4f}")
            ret = 0.0


if __name__ == "__main__":
    main()
