"""Double DQN with prioritised replay on a vectorised point-mass task."""
import collections
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    num_envs: int = 8
    capacity: int = 1024
    batch_size: int = 32
    warmup_steps: int = 12
    updates: int = 32
    alpha: float = 0.6
    beta_start: float = 0.4
    beta_updates: int = 26
    gamma: float = 0.97
    lr: float = 1e-3
    tau: float = 0.02
    log_every: int = 8


class PointMass:
    """Push a 2d point towards the origin; five discrete thrusts."""
    THRUST = 0.2 * np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]], dtype=np.float32)

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.state = self._fresh(n)

    def _fresh(self, n):
        return self.rng.normal(size=(n, 4)).astype(np.float32)

    def step(self, action):
        s = self.state.copy()
        s[:, 2:] = 0.9 * s[:, 2:] + self.THRUST[action]
        s[:, :2] += 0.1 * s[:, 2:]
        reward = -np.linalg.norm(s[:, :2], axis=1).astype(np.float32)
        done = (np.abs(s[:, :2]).max(axis=1) > 3) | (self.rng.random(len(s)) < 0.02)
        prev, nxt = self.state, s.copy()
        s[done] = self._fresh(int(done.sum()))
        self.state = s
        return prev, reward, nxt, done.astype(np.float32)


class PrioritizedReplay:
    def __init__(self, cfg, seed):
        self.cfg, self.rng = cfg, np.random.default_rng(seed)
        self.data = [None] * cfg.capacity
        self.prio = np.zeros(cfg.capacity, dtype=np.float32)
        self.pos, self.size = 0, 0

    def push(self, *columns):
        top = self.prio.max() or 1.0
        for row in zip(*columns):
            self.data[self.pos], self.prio[self.pos] = row, top
            self.pos = (self.pos + 1) % self.cfg.capacity
            self.size = min(self.size + 1, self.cfg.capacity)

    def sample(self):
        p = self.prio[:self.size] ** self.cfg.alpha
        p = p / p.sum()
        idx = self.rng.choice(self.size, self.cfg.batch_size, p=p)
        cols = [torch.from_numpy(np.stack(c)) for c in zip(*(self.data[i] for i in idx))]
        return idx, torch.from_numpy(p[idx] * self.size), cols

    def update(self, idx, td):
        self.prio[idx] = td + 1e-3


class Agent:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        self.q, self.q_target = self._net().to(device), self._net().to(device)
        self.q_target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.Adam(self.q.parameters(), lr=cfg.lr)
        self.recent = collections.deque(maxlen=100)

    @staticmethod
    def _net():
        return nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 5))

    @torch.no_grad()
    def act(self, obs, eps, rng):
        greedy = self.q(torch.from_numpy(obs).to(self.device)).argmax(1).cpu().numpy()
        explore = rng.random(len(obs)) < eps
        return np.where(explore, rng.integers(0, 5, len(obs)), greedy)

    def update(self, scaled_prob, cols, beta):
        s, a, r, s2, done = (c.to(self.device) for c in cols)
        weight = scaled_prob.to(self.device).pow(-beta)
        weight = weight / weight.max()
        with torch.no_grad():
            best = self.q(s2).argmax(1, keepdim=True)
            nxt = self.q_target(s2).gather(1, best).squeeze(1)
            target = r + self.cfg.gamma * (1 - done) * nxt
        value = self.q(s).gather(1, a[:, None]).squeeze(1)
        td = (target - value).detach().abs()
        loss = (weight * F.smooth_l1_loss(value, target, reduction="none")).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for tp, p in zip(self.q_target.parameters(), self.q.parameters()):
                tp.lerp_(p, self.cfg.tau)
        self.recent.append(td.mean())
        running = torch.stack(list(self.recent)).mean()
        xm.mark_step()
        return td.cpu().numpy(), running


def main():
    cfg = Config()
    torch.manual_seed(0)
    rng = np.random.default_rng(1)
    env, replay = PointMass(cfg.num_envs, seed=2), PrioritizedReplay(cfg, seed=3)
    agent = Agent(cfg, torch_xla.device())
    for step in range(cfg.warmup_steps + cfg.updates):
        action = agent.act(env.state, max(0.05, 1 - step / 40), rng)
        s, r, s2, done = env.step(action)
        replay.push(s, action, r, s2, done)
        update = step - cfg.warmup_steps
        if update < 0:
            continue
        beta = min(1.0, cfg.beta_start + (1 - cfg.beta_start) * update / cfg.beta_updates)
        idx, scaled_prob, cols = replay.sample()
        td, running = agent.update(scaled_prob, cols, beta)
        replay.update(idx, td)
        if (update + 1) % cfg.log_every == 0:
            print(f"update {update + 1}: td {running.item():.4f} reward {r.mean():.3f} beta {beta:.2f}")


if __name__ == "__main__":
    main()
