"""Double DQN on a small windy grid, replay memory kept on the accelerator.

usage: python p11.py [--steps N]
"""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=90)
parser.add_argument("--capacity", type=int, default=36)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--gamma", type=float, default=0.97)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--tau", type=float, default=0.02)
parser.add_argument("--learning-starts", type=int, default=16)
parser.add_argument("--seed", type=int, default=7)


class WindyGrid:
    """10 x 7 grid, wind pushes up in the middle columns."""

    WIND = [0, 0, 0, 1, 1, 1, 2, 2, 1, 0]
    MOVES = [(0, 1), (0, -1), (1, 0), (-1, 0)]

    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.pos = [3, self.rng.randint(0, 3)]
        self.t = 0
        return self._obs()

    def _obs(self):
        r, c = self.pos
        return np.array(
            [r / 6.0, c / 9.0, (3 - r) / 6.0, (7 - c) / 9.0, self.WIND[c] / 2.0, self.t / 50.0],
            dtype=np.float32,
        )

    def step(self, action):
        dr, dc = self.MOVES[action]
        r, c = self.pos
        r = min(6, max(0, r + dr - self.WIND[c]))
        c = min(9, max(0, c + dc))
        self.pos = [r, c]
        self.t += 1
        done = (r, c) == (3, 7)
        reward = 1.0 if done else -0.02
        return self._obs(), reward, done, self.t >= 50


class ReplayMemory:
    def __init__(self, capacity, obs_dim, device):
        self.capacity = capacity
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.next_obs = torch.zeros(capacity, obs_dim, device=device)
        self.act = torch.zeros(capacity, 1, dtype=torch.long, device=device)
        self.rew = torch.zeros(capacity, 1, device=device)
        self.done = torch.zeros(capacity, 1, device=device)
        self.device = device
        self.ptr = 0
        self.size = 0

    def push(self, obs, act, rew, next_obs, done):
        i = self.ptr
        self.obs[i] = torch.from_numpy(obs).to(self.device)
        self.next_obs[i] = torch.from_numpy(next_obs).to(self.device)
        self.act[i] = torch.tensor([act]).to(self.device)
        self.rew[i] = torch.tensor([rew]).to(self.device)
        self.done[i] = torch.tensor([float(done)]).to(self.device)
        self.ptr = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, n):
        idx = torch.from_numpy(np.random.randint(0, self.size, size=n)).to(self.device)
        return self.obs[idx], self.act[idx], self.rew[idx], self.next_obs[idx], self.done[idx]


def mlp(obs_dim, n_actions):
    return nn.Sequential(nn.Linear(obs_dim, 32), nn.ReLU(), nn.Linear(32, n_actions))


def main():
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch_xla.device()

    env = WindyGrid(random.Random(args.seed))
    q, q_target = mlp(6, 4).to(device), mlp(6, 4).to(device)
    q_target.load_state_dict(q.state_dict())
    opt = torch.optim.RMSprop(q.parameters(), lr=args.lr)
    memory = ReplayMemory(args.capacity, 6, device)

    obs, ep_ret, returns = env.reset(), 0.0, []
    for step in range(args.steps):
        eps = max(0.05, 1.0 - step / 70)
        if random.random() < eps:
            action = random.randrange(4)
        else:
            with torch.no_grad():
                action = q(torch.from_numpy(obs)[None].to(device)).argmax(1).item()
        next_obs, reward, terminated, truncated = env.step(action)
        memory.push(obs, action, reward, next_obs, terminated)
        ep_ret += reward
        obs = next_obs
        if terminated or truncated:
            returns.append(ep_ret)
            obs, ep_ret = env.reset(), 0.0

        if step >= args.learning_starts:
            o, a, r, o2, d = memory.sample(args.batch_size)
            with torch.no_grad():
                best = q(o2).argmax(1, keepdim=True)
                target = r + args.gamma * (1 - d) * q_target(o2).gather(1, best)
            loss = F.smooth_l1_loss(q(o).gather(1, a), target)
            opt.zero_grad()
            loss.backward()
            opt.step()
            with torch.no_grad():
                for p, pt in zip(q.parameters(), q_target.parameters()):
                    pt.mul_(1 - args.tau).add_(p, alpha=args.tau)
        xm.mark_step()
        if step % 30 == 29:
            print(f"step {step + 1} loss {loss.item():.4f} episodes {len(returns)}")


if __name__ == "__main__":
    main()
