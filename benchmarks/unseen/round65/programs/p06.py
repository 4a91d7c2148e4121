"""Dueling double DQN on a small inventory problem, with prioritised replay."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACTIONS = 5, 4


@dataclass
class Config:
    steps: int = 18
    batch: int = 32
    capacity: int = 512
    gamma: float = 0.97
    alpha: float = 0.6
    beta0: float = 0.4
    target_every: int = 6
    lr: float = 1e-3
    eps: float = 0.2


class Inventory:
    """Order 0..3 units a day against a seasonal demand."""

    def __init__(self, rng):
        self.rng = rng
        self.stock, self.day = 6.0, 0

    def obs(self):
        a = 2 * np.pi * self.day / 7
        return np.array([self.stock / 10, np.sin(a), np.cos(a), float(self.stock < 2), 1.0],
                        dtype=np.float32)

    def step(self, action):
        demand = self.rng.poisson(1.5 + np.sin(2 * np.pi * self.day / 7))
        sold = min(self.stock + action, demand)
        reward = 1.0 * sold - 0.1 * self.stock - 0.3 * action
        self.stock = min(self.stock + action - sold, 12.0)
        self.day += 1
        return reward


class PrioritisedReplay:
    def __init__(self, cfg, rng):
        self.cfg, self.rng = cfg, rng
        n = cfg.capacity
        self.s = np.zeros((n, OBS), np.float32)
        self.s2 = np.zeros((n, OBS), np.float32)
        self.a = np.zeros(n, np.int64)
        self.r = np.zeros(n, np.float32)
        self.prio = np.zeros(n, np.float32)
        self.pos, self.size = 0, 0

    def add(self, s, a, r, s2):
        i = self.pos
        self.s[i], self.a[i], self.r[i], self.s2[i] = s, a, r, s2
        self.prio[i] = self.prio.max() if self.size else 1.0
        self.pos = (i + 1) % self.cfg.capacity
        self.size = min(self.size + 1, self.cfg.capacity)

    def sample(self, device):
        p = self.prio[:self.size] ** self.cfg.alpha
        p = p / p.sum()
        idx = self.rng.choice(self.size, self.cfg.batch, p=p / p.sum(dtype=np.float64))
        fields = (self.s[idx], self.a[idx], self.r[idx], self.s2[idx],
                  (p[idx] * self.size).astype(np.float32))
        return idx, [torch.from_numpy(f).to(device) for f in fields]

    def update(self, idx, td):
        self.prio[idx] = np.abs(td) + 1e-3


class DuelingNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, width), nn.ReLU(),
                                  nn.Linear(width, width), nn.ReLU())
        self.value = nn.Linear(width, 1)
        self.adv = nn.Linear(width, ACTIONS)

    def forward(self, x):
        h = self.body(x)
        adv = self.adv(h)
        return self.value(h) + adv - adv.mean(1, keepdim=True)


def td_error(online, target, batch, gamma):
    s, a, r, s2, _ = batch
    q = online(s).gather(1, a.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        best = online(s2).argmax(1, keepdim=True)
        goal = r + gamma * target(s2).gather(1, best).squeeze(1)
    return goal - q


def main(cfg=Config()):
    torch.manual_seed(7)
    rng = np.random.default_rng(7)
    device = torch_xla.device()
    online, target = DuelingNet().to(device), DuelingNet().to(device)
    target.load_state_dict(online.state_dict())
    opt = torch.optim.Adam(online.parameters(), lr=cfg.lr)

    env, replay = Inventory(rng), PrioritisedReplay(cfg, rng)
    obs = env.obs()
    for _ in range(256):
        a = int(rng.integers(ACTIONS))
        r = env.step(a)
        nxt = env.obs()
        replay.add(obs, a, r, nxt)
        obs = nxt

    for step in range(cfg.steps):
        with torch.no_grad():
            greedy = online(torch.from_numpy(obs).to(device).unsqueeze(0)).argmax(1).item()
        a = int(rng.integers(ACTIONS)) if rng.random() < cfg.eps else greedy
        r = env.step(a)
        nxt = env.obs()
        replay.add(obs, a, r, nxt)
        obs = nxt

        idx, batch = replay.sample(device)
        beta = cfg.beta0 + (1.0 - cfg.beta0) * step / cfg.steps
        weight = batch[-1].pow(-beta)
        weight = weight / weight.max()
        td = td_error(online, target, batch, cfg.gamma)
        loss = (weight * F.smooth_l1_loss(td, torch.zeros_like(td), reduction="none")).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()

        replay.update(idx, td.detach().cpu().numpy())
        if (step + 1) % cfg.target_every == 0:
            target.load_state_dict(online.state_dict())
            torch_xla.sync()
            print(f"{step + 1:3d} loss {loss.item():.4f} beta {beta:.2f}")


if __name__ == "__main__":
    main()
