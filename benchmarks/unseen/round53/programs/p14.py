"""TD3 on a batch of planar reachers (vectorised numpy env, numpy replay)."""
import copy
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class TD3Config:
    n_envs: int = 8
    batch: int = 64
    gamma: float = 0.98
    tau: float = 0.02
    policy_delay: int = 2
    noise: float = 0.2
    noise_clip: float = 0.5
    expl_noise: float = 0.15
    warmup: int = 4
    steps: int = 60
    eval_every: int = 20
    eval_len: int = 12
    lr: float = 1e-3
    seed: int = 14


class Reacher:
    obs_dim, act_dim = 8, 2

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.n = n
        self.reset()

    def reset(self):
        self.q = self.rng.uniform(-np.pi, np.pi, (self.n, 2))
        self.dq = np.zeros((self.n, 2))
        r, th = self.rng.uniform(0.3, 1.6, self.n), self.rng.uniform(-np.pi, np.pi, self.n)
        self.goal = np.stack([r * np.cos(th), r * np.sin(th)], 1)
        self.t = 0
        return self.obs()

    def tip(self):
        a, b = self.q[:, 0], self.q.sum(1)
        return np.stack([np.cos(a) + np.cos(b), np.sin(a) + np.sin(b)], 1)

    def obs(self):
        parts = [np.cos(self.q), np.sin(self.q), self.dq, self.goal - self.tip()]
        return np.concatenate(parts, 1).astype(np.float32)

    def step(self, act):
        self.dq = np.clip(0.9 * self.dq + 0.4 * act, -3, 3)
        self.q = self.q + 0.1 * self.dq
        rew = -np.linalg.norm(self.goal - self.tip(), axis=1) - 0.01 * (act**2).sum(1)
        self.t += 1
        nxt = self.obs()
        if self.t % 25 == 0:
            return nxt, rew.astype(np.float32), True
        return nxt, rew.astype(np.float32), False


class Replay:
    def __init__(self, capacity, obs_dim, act_dim):
        self.data = [
            np.zeros((capacity, obs_dim), np.float32),
            np.zeros((capacity, act_dim), np.float32),
            np.zeros((capacity,), np.float32),
            np.zeros((capacity, obs_dim), np.float32),
        ]
        self.capacity, self.n, self.ptr = capacity, 0, 0

    def add(self, *rows):
        idx = (self.ptr + np.arange(len(rows[0]))) % self.capacity
        for buf, r in zip(self.data, rows):
            buf[idx] = r
        self.ptr = int(idx[-1] + 1) % self.capacity
        self.n = min(self.n + len(idx), self.capacity)

    def sample(self, batch, rng):
        idx = rng.integers(0, self.n, batch)
        return [torch.from_numpy(buf[idx]) for buf in self.data]


def mlp(i, o, h=32):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Agent(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.actor = nn.Sequential(mlp(obs_dim, act_dim), nn.Tanh())
        self.q1 = mlp(obs_dim + act_dim, 1)
        self.q2 = mlp(obs_dim + act_dim, 1)

    def critics(self, obs, act):
        x = torch.cat([obs, act], -1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


@torch.no_grad()
def evaluate(agent, cfg, device):
    env = Reacher(cfg.n_envs, cfg.seed + 1000)
    obs, total = env.reset(), 0.0
    for _ in range(cfg.eval_len):
        act = agent.actor(torch.from_numpy(obs).to(device)).cpu().numpy()
        obs, rew, _ = env.step(act)
        total += float(rew.mean())
    return total


def main(cfg=TD3Config()):
    torch.manual_seed(cfg.seed)
    rng = np.random.default_rng(cfg.seed)
    device = torch_xla.device()
    env = Reacher(cfg.n_envs, cfg.seed)
    agent = Agent(env.obs_dim, env.act_dim).to(device)
    target = copy.deepcopy(agent).requires_grad_(False)
    critic_params = list(agent.q1.parameters()) + list(agent.q2.parameters())
    opt_q = torch.optim.Adam(critic_params, lr=cfg.lr)
    opt_pi = torch.optim.Adam(agent.actor.parameters(), lr=cfg.lr)
    replay = Replay(4096, env.obs_dim, env.act_dim)
    xm.mark_step()

    obs = env.reset()
    for step in range(cfg.steps):
        with torch.no_grad():
            act = agent.actor(torch.from_numpy(obs).to(device)).cpu().numpy()
        act = np.clip(act + cfg.expl_noise * rng.standard_normal(act.shape), -1, 1)
        nxt, rew, over = env.step(act)
        replay.add(obs, act.astype(np.float32), rew, nxt)
        obs = env.reset() if over else nxt
        if step < cfg.warmup:
            continue

        o, a, r, n = (t.to(device) for t in replay.sample(cfg.batch, rng))
        with torch.no_grad():
            eps = (torch.randn_like(a) * cfg.noise).clamp(-cfg.noise_clip, cfg.noise_clip)
            na = (target.actor(n) + eps).clamp(-1, 1)
            y = r + cfg.gamma * torch.min(*target.critics(n, na))
        q1, q2 = agent.critics(o, a)
        loss_q = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        opt_q.zero_grad()
        loss_q.backward()
        opt_q.step()

        if step % cfg.policy_delay == 0:
            loss_pi = -agent.critics(o, agent.actor(o))[0].mean()
            opt_pi.zero_grad()
            loss_pi.backward()
            opt_pi.step()
            with torch.no_grad():
                for tp, p in zip(target.parameters(), agent.parameters()):
                    tp.lerp_(p, cfg.tau)
        xm.mark_step()
        if (step + 1) % cfg.eval_every == 0:
            print(f"{step + 1}: q loss {loss_q.item():.3f} eval {evaluate(agent, cfg, device):.2f}")


if __name__ == "__main__":
    main()
