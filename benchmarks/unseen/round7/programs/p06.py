"""Double DQN on a chain environment, with the replay memory on the accelerator."""
import random
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    length: int = 8
    gamma: float = 0.95
    capacity: int = 64
    batch: int = 16
    warmup: int = 12
    steps: int = 56
    target_every: int = 10
    eps_start: float = 1.0
    eps_end: float = 0.1
    seed: int = 7


class ChainEnv:
    def __init__(self, length, rng):
        self.length, self.rng, self.pos = length, rng, 0

    def observe(self):
        obs = np.zeros(self.length, np.float32)
        obs[self.pos] = 1.0
        return obs

    def reset(self):
        self.pos = self.rng.randrange(self.length // 2)
        return self.observe()

    def step(self, action):
        move = 1 if action == 1 else -1
        if self.rng.random() < 0.1:
            move = -move
        self.pos = min(self.length - 1, max(0, self.pos + move))
        done = self.pos == self.length - 1
        return self.observe(), 1.0 if done else -0.01, done


class ReplayMemory:
    def __init__(self, cfg, device):
        n = cfg.capacity
        self.obs = torch.zeros(n, cfg.length, device=device)
        self.next_obs = torch.zeros(n, cfg.length, device=device)
        self.action = torch.zeros(n, dtype=torch.long, device=device)
        self.reward = torch.zeros(n, device=device)
        self.alive = torch.zeros(n, device=device)
        self.capacity, self.device = n, device
        self.pos, self.size = 0, 0

    def push(self, obs, action, reward, next_obs, done):
        i = self.pos
        self.obs[i] = torch.from_numpy(obs).to(self.device)
        self.next_obs[i] = torch.from_numpy(next_obs).to(self.device)
        self.action[i] = torch.tensor(action).to(self.device)
        self.reward[i] = torch.tensor(reward).to(self.device)
        self.alive[i] = torch.tensor(0.0 if done else 1.0).to(self.device)
        self.pos = (self.pos + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, n, rng):
        idx = torch.tensor([rng.randrange(self.size) for _ in range(n)]).to(self.device)
        return self.obs[idx], self.action[idx], self.reward[idx], self.next_obs[idx], self.alive[idx]


class QNet(nn.Module):
    def __init__(self, n_in, hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU())
        self.value = nn.Linear(hidden, 1)
        self.adv = nn.Linear(hidden, 2)

    def forward(self, x):
        h = self.body(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(dim=-1, keepdim=True)


class Agent:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        self.q = QNet(cfg.length).to(device)
        self.target = QNet(cfg.length).to(device)
        self.target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.RMSprop(self.q.parameters(), lr=2e-3)

    @torch.no_grad()
    def act(self, obs, eps, rng):
        if rng.random() < eps:
            return rng.randrange(2)
        q = self.q(torch.from_numpy(obs).unsqueeze(0).to(self.device))
        return int(q.argmax(dim=-1).item())

    def learn(self, batch):
        obs, action, reward, next_obs, alive = batch
        with torch.no_grad():
            best = self.q(next_obs).argmax(dim=-1, keepdim=True)
            boot = self.target(next_obs).gather(1, best).squeeze(1)
            y = reward + self.cfg.gamma * alive * boot
        q = self.q(obs).gather(1, action.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss


def run(cfg):
    rng = random.Random(cfg.seed)
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    env, agent, memory = ChainEnv(cfg.length, rng), Agent(cfg, device), ReplayMemory(cfg, device)
    xm.mark_step()
    obs, returns, total = env.reset(), [], 0.0
    for t in range(cfg.steps):
        eps = max(cfg.eps_end, cfg.eps_start - t / (0.7 * cfg.steps))
        action = agent.act(obs, eps, rng)
        nxt, reward, done = env.step(action)
        memory.push(obs, action, reward, nxt, done)
        xm.mark_step()
        total += reward
        obs = nxt
        if done:
            returns.append(total)
            obs, total = env.reset(), 0.0
        if memory.size >= cfg.warmup:
            loss = agent.learn(memory.sample(cfg.batch, rng))
            xm.mark_step()
        if t and t % cfg.target_every == 0:
            agent.target.load_state_dict(agent.q.state_dict())
            xm.mark_step()
    print(f'loss {loss.item():.4f} episodes {len(returns)} mean return {np.mean(returns) if returns else 0:.3f}')


if __name__ == '__main__':
    run(Config())
