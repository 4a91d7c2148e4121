"""Double DQN on a corridor task; a learner step every turn, target averaging every fourth."""
import logging
import random
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("dqn")


@dataclass
class DQNConfig:
    seed: int = 19
    length: int = 12
    batch_size: int = 16
    steps: int = 36
    prefill: int = 64
    gamma: float = 0.97
    lr: float = 2e-3
    tau: float = 0.3
    target_every: int = 4
    eps_start: float = 0.9
    eps_end: float = 0.1


class Corridor:
    def __init__(self, length, rng):
        self.length, self.rng = length, rng
        self.reset()

    def reset(self):
        self.at = self.rng.randrange(self.length // 2)
        return self.obs()

    def obs(self):
        o = np.zeros(self.length, dtype=np.float32)
        o[self.at] = 1
        return o

    def step(self, action):
        self.at = min(max(self.at + (1 if action else -1), 0), self.length - 1)
        done = self.at == self.length - 1
        return self.obs(), float(done) - 0.01, done


class Replay:
    def __init__(self, rng):
        self.rng, self.rows = rng, []

    def add(self, *row):
        self.rows.append(row)

    def sample(self, n):
        picked = self.rng.sample(self.rows, n)
        obs, act, rew, nxt, done = zip(*picked)
        return (torch.from_numpy(np.stack(obs)), torch.tensor(act), torch.tensor(rew, dtype=torch.float32),
                torch.from_numpy(np.stack(nxt)), torch.tensor(done, dtype=torch.float32))


def q_network(cfg):
    return nn.Sequential(nn.Linear(cfg.length, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))


class Agent:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        self.online, self.target = q_network(cfg).to(device), q_network(cfg).to(device)
        self.opt = torch.optim.Adam(self.online.parameters(), lr=cfg.lr)
        self.updates = 0

    @torch.no_grad()
    def act(self, obs, eps, rng):
        q = self.online(torch.from_numpy(obs)[None].to(self.device))
        best = int(q.argmax(-1).cpu())
        return rng.randrange(2) if rng.random() < eps else best

    def learn(self, batch):
        obs, act, rew, nxt, done = (t.to(self.device) for t in batch)
        with torch.no_grad():
            pick = self.online(nxt).argmax(-1, keepdim=True)
            boot = self.target(nxt).gather(1, pick).squeeze(1)
            goal = rew + self.cfg.gamma * (1 - done) * boot
        q = self.online(obs).gather(1, act[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, goal)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.updates += 1
        if self.updates % self.cfg.target_every == 0:
            self.average_target()
        torch_xla.sync()
        return loss.detach()

    @torch.no_grad()
    def average_target(self):
        for t, p in zip(self.target.parameters(), self.online.parameters()):
            t.lerp_(p, self.cfg.tau)


def main():
    cfg = DQNConfig()
    torch.manual_seed(cfg.seed)
    rng = random.Random(cfg.seed)
    device = xm.xla_device()
    env, replay, agent = Corridor(cfg.length, rng), Replay(rng), Agent(cfg, device)
    obs = env.reset()
    for _ in range(cfg.prefill):
        action = rng.randrange(2)
        nxt, rew, done = env.step(action)
        replay.add(obs, action, rew, nxt, done)
        obs = env.reset() if done else nxt
    for step in range(cfg.steps):
        eps = cfg.eps_start + (cfg.eps_end - cfg.eps_start) * step / cfg.steps
        action = agent.act(obs, eps, rng)
        nxt, rew, done = env.step(action)
        replay.add(obs, action, rew, nxt, done)
        obs = env.reset() if done else nxt
        loss = agent.learn(replay.sample(cfg.batch_size))
        if (step + 1) % 12 == 0:
            log.info("step %d eps %.2f loss %.4f", step + 1, eps, loss.item())


if __name__ == "__main__":
    main()
