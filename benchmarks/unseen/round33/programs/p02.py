import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    seed: int = 3
    n_envs: int = 16
    capacity: int = 2048
    warmup: int = 10
    updates: int = 24
    batch: int = 64
    gamma: float = 0.97
    tau: float = 0.02
    lr: float = 1e-3
    alpha: float = 0.6
    beta0: float = 0.4
    eps_hi: float = 1.0
    eps_lo: float = 0.05


class PendulumVec:
    """Torque-limited pendulum with five discrete torques, vectorised over n."""
    TORQUES = np.array([-2.0, -1.0, 0.0, 1.0, 2.0], dtype=np.float32)

    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.th = rng.uniform(-math.pi, math.pi, n)
        self.om = rng.uniform(-1, 1, n)
        self.t = np.zeros(n, dtype=int)

    def obs(self):
        return np.stack([np.cos(self.th), np.sin(self.th), self.om / 8], 1).astype(np.float32)

    def step(self, action):
        u = self.TORQUES[action]
        ang = (self.th + math.pi) % (2 * math.pi) - math.pi
        reward = -(ang ** 2 + 0.1 * self.om ** 2 + 0.001 * u ** 2) / 10
        self.om = np.clip(self.om + 0.05 * (15 * np.sin(self.th) + 3 * u), -8, 8)
        self.th = self.th + 0.05 * self.om
        self.t += 1
        nxt = self.obs()
        done = self.t >= 100
        if done.any():
            k = done.sum()
            self.th[done] = self.rng.uniform(-math.pi, math.pi, k)
            self.om[done] = self.rng.uniform(-1, 1, k)
            self.t[done] = 0
        return nxt, reward.astype(np.float32), done.astype(np.float32)


class PrioritizedReplay:
    def __init__(self, cfg, rng):
        self.cfg, self.rng = cfg, rng
        self.obs = np.zeros((cfg.capacity, 3), np.float32)
        self.nxt = np.zeros((cfg.capacity, 3), np.float32)
        self.act = np.zeros(cfg.capacity, np.int64)
        self.rew = np.zeros(cfg.capacity, np.float32)
        self.done = np.zeros(cfg.capacity, np.float32)
        self.prio = np.zeros(cfg.capacity, np.float64)
        self.pos, self.size = 0, 0

    def add(self, o, a, r, n, d):
        idx = (self.pos + np.arange(len(a))) % self.cfg.capacity
        self.obs[idx], self.act[idx], self.rew[idx], self.nxt[idx], self.done[idx] = o, a, r, n, d
        self.prio[idx] = self.prio.max() if self.size else 1.0
        self.pos = (self.pos + len(a)) % self.cfg.capacity
        self.size = min(self.size + len(a), self.cfg.capacity)

    def sample(self, k):
        p = self.prio[:self.size] ** self.cfg.alpha
        p /= p.sum()
        idx = self.rng.choice(self.size, k, p=p)
        fields = (self.obs[idx], self.act[idx], self.rew[idx], self.nxt[idx], self.done[idx],
                  p[idx].astype(np.float32))
        return idx, [torch.from_numpy(f) for f in fields]


class QNet(nn.Module):
    def __init__(self, n_act=5, width=64):
        super().__init__()
        self.trunk = nn.Linear(3, width)
        self.head = nn.Linear(width, n_act)

    def forward(self, x):
        return self.head(torch.tanh(self.trunk(x)))


class Agent:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        self.q, self.target = QNet().to(device), QNet().to(device)
        self.target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.RMSprop(self.q.parameters(), lr=cfg.lr)

    @torch.no_grad()
    def act(self, obs, eps, rng):
        greedy = self.q(torch.from_numpy(obs).to(self.device)).argmax(1).cpu().numpy()
        explore = rng.random(len(obs)) < eps
        return np.where(explore, rng.integers(0, 5, len(obs)), greedy)

    def update(self, fields, n_stored, beta):
        o, a, r, n, d, p = [f.to(self.device) for f in fields]
        with torch.no_grad():
            best = self.q(n).argmax(1, keepdim=True)
            y = r + self.cfg.gamma * (1 - d) * self.target(n).gather(1, best).squeeze(1)
            w = (n_stored * p) ** -beta
            w = w / w.max()
        td = self.q(o).gather(1, a[:, None]).squeeze(1) - y
        loss = (w * nn.functional.smooth_l1_loss(td, torch.zeros_like(td), reduction="none")).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for tp, p_ in zip(self.target.parameters(), self.q.parameters()):
                tp.lerp_(p_, self.cfg.tau)
        return loss.detach(), td.detach().abs()


def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    device = torch_xla.device()
    env, buf, agent = PendulumVec(cfg.n_envs, rng), PrioritizedReplay(cfg, rng), Agent(cfg, device)
    obs, returns = env.obs(), []
    for it in range(cfg.warmup + cfg.updates):
        frac = max(0, it - cfg.warmup) / cfg.updates
        eps = cfg.eps_hi + frac * (cfg.eps_lo - cfg.eps_hi)
        act = agent.act(obs, eps, rng)
        nxt, rew, done = env.step(act)
        buf.add(obs, act, rew, nxt, done)
        obs = nxt
        returns.append(rew.mean())
        if it < cfg.warmup:
            continue
        beta = cfg.beta0 + frac * (1.0 - cfg.beta0)
        idx, fields = buf.sample(cfg.batch)
        loss, td = agent.update(fields, buf.size, beta)
        torch_xla.sync()
        buf.prio[idx] = td.cpu().numpy() + 1e-3
        if (it - cfg.warmup) % 8 == 7:
            print(f"update {it - cfg.warmup + 1} loss {loss.item():.4f} eps {eps:.2f} "
                  f"reward {np.mean(returns[-8:]):.3f} stored {buf.size}")


if __name__ == "__main__":
    main()
