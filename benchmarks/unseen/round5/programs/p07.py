"""Actor-critic on a pole-balancing simulator, observation normaliser on the device."""
import math
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class A2CConfig:
    hidden: int = 32
    horizon: int = 60
    episodes: int = 60
    gamma: float = 0.97
    entropy: float = 0.005
    lr: float = 6e-3
    log_every: int = 10


class Pole:
    """Inverted pendulum on a cart (Euler integration)."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def reset(self):
        self.s = [self.rng.uniform(-0.05, 0.05) for _ in range(4)]
        return list(self.s)

    def step(self, action):
        x, v, th, w = self.s
        force = 10.0 if action else -10.0
        temp = (force + 0.05 * w * w * math.sin(th)) / 1.1
        acc_th = (9.8 * math.sin(th) - math.cos(th) * temp) / (
            0.5 * (4 / 3 - 0.1 * math.cos(th) ** 2 / 1.1))
        acc = temp - 0.05 * acc_th * math.cos(th) / 1.1
        dt = 0.03
        self.s = [x + dt * v, v + dt * acc, th + dt * w, w + dt * acc_th]
        done = abs(self.s[0]) > 2.4 or abs(self.s[2]) > 0.21
        return list(self.s), 1.0, done


class ObsNormalizer(nn.Module):
    """Streaming mean and variance (Welford)."""

    def __init__(self, dim):
        super().__init__()
        self.register_buffer("count", torch.full((), 1e-2))
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("m2", torch.full((dim,), 1e-2))

    @torch.no_grad()
    def update(self, obs):
        self.count.add_(1)
        delta = obs - self.mean
        self.mean.add_(delta / self.count)
        self.m2.add_(delta * (obs - self.mean))

    def forward(self, obs):
        return (obs - self.mean) / (self.m2 / self.count + 1e-4).sqrt()


class ActorCritic(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.normalizer = ObsNormalizer(4)
        self.body = nn.Sequential(nn.Linear(4, cfg.hidden), nn.Tanh())
        self.pi = nn.Linear(cfg.hidden, 2)
        self.v = nn.Linear(cfg.hidden, 1)

    def forward(self, obs):
        h = self.body(self.normalizer(obs))
        return self.pi(h), self.v(h).squeeze(-1)


class Agent:
    def __init__(self, cfg):
        torch.manual_seed(0)
        self.cfg, self.device = cfg, torch_xla.device()
        self.net = ActorCritic(cfg).to(self.device)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg.lr)
        self.rng = random.Random(0)
        torch_xla.sync()

    @torch.no_grad()
    def act(self, obs):
        obs = torch.tensor(obs).to(self.device)
        self.net.normalizer.update(obs)
        logits, _ = self.net(obs)
        prob = torch.softmax(logits, -1)[1].item()
        return int(self.rng.random() < prob)

    def rollout(self, env):
        obs, done, traj = env.reset(), False, []
        while not done and len(traj) < self.cfg.horizon:
            action = self.act(obs)
            nxt, reward, done = env.step(action)
            traj.append((obs, action, reward))
            obs = nxt
        torch_xla.sync()
        return traj

    def learn(self, traj):
        n, pad = len(traj), self.cfg.horizon - len(traj)
        returns, g = [], 0.0
        for _, _, r in reversed(traj):
            g = r + self.cfg.gamma * g
            returns.append(g)
        obs = torch.tensor([t[0] for t in traj] + [[0.0] * 4] * pad).to(self.device)
        act = torch.tensor([t[1] for t in traj] + [0] * pad).to(self.device)
        ret = torch.tensor(returns[::-1] + [0.0] * pad).to(self.device)
        mask = torch.tensor([1.0] * n + [0.0] * pad).to(self.device)
        logits, value = self.net(obs)
        logp = F.log_softmax(logits, -1)
        adv = (ret - value.detach()) * mask
        pg = -(logp.gather(1, act[:, None]).squeeze(1) * adv).sum() / mask.sum()
        vf = ((value - ret) ** 2 * mask).sum() / mask.sum()
        ent = -((logp.exp() * logp).sum(-1) * mask).sum() / mask.sum()
        loss = pg + 0.5 * vf / 50 - self.cfg.entropy * ent
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss


def main(cfg=A2CConfig()):
    agent, env, lengths = Agent(cfg), Pole(1), []
    for ep in range(cfg.episodes):
        traj = agent.rollout(env)
        loss = agent.learn(traj)
        lengths.append(len(traj))
        if (ep + 1) % cfg.log_every == 0:
            mean = sum(lengths[-cfg.log_every:]) / cfg.log_every
            print(f"episode {ep + 1:3d} length {mean:.1f} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
