"""Double DQN on a small pole-balancing task, replay memory kept on the accelerator."""
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 7
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)


class PoleEnv:
    """Cart-pole with Euler integration, same constants as the classic control task."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.state = None
        self.t = 0

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, size=4)
        self.t = 0
        return self.state.astype(np.float32)

    def step(self, action):
        x, xd, th, thd = self.state
        force = 10.0 if action == 1 else -10.0
        c, s = math.cos(th), math.sin(th)
        tmp = (force + 0.05 * thd ** 2 * s) / 1.1
        tha = (9.8 * s - c * tmp) / (0.5 * (4.0 / 3.0 - 0.1 * c ** 2 / 1.1))
        xa = tmp - 0.05 * tha * c / 1.1
        self.state = np.array([x + 0.02 * xd, xd + 0.02 * xa, th + 0.02 * thd, thd + 0.02 * tha])
        self.t += 1
        done = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21
        return self.state.astype(np.float32), 1.0, done or self.t >= 200


class DeviceReplay:
    """Ring buffer living in device memory so that sampling does not pay for host transfers."""

    def __init__(self, capacity, obs_dim, device):
        self.capacity = capacity
        self.device = device
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.next_obs = torch.zeros(capacity, obs_dim, device=device)
        self.info = torch.zeros(capacity, 3, device=device)  # action, reward, done
        self.ptr = 0
        self.size = 0

    def prefill(self, obs, info, next_obs):
        n = len(obs)
        self.obs[:n] = torch.from_numpy(obs).to(self.device)
        self.info[:n] = torch.from_numpy(info).to(self.device)
        self.next_obs[:n] = torch.from_numpy(next_obs).to(self.device)
        self.ptr = n % self.capacity
        self.size = n

    def push(self, obs, action, reward, done, next_obs):
        row = torch.tensor([float(action), reward, float(done)])
        self.obs[self.ptr] = torch.from_numpy(obs).to(self.device)
        self.info[self.ptr] = row.to(self.device)
        self.next_obs[self.ptr] = torch.from_numpy(next_obs).to(self.device)
        self.ptr = (self.ptr + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, batch_size):
        idx = torch.randint(0, self.size, (batch_size,)).to(self.device)
        info = self.info[idx]
        return self.obs[idx], info[:, 0].long(), info[:, 1], info[:, 2], self.next_obs[idx]


class DuelingNet(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.value = nn.Linear(hidden, 1)
        self.adv = nn.Linear(hidden, n_actions)

    def forward(self, x):
        h = self.body(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(dim=1, keepdim=True)


def collect_random(env, n):
    obs_l, info_l, next_l = [], [], []
    obs = env.reset()
    for _ in range(n):
        action = random.randint(0, 1)
        nxt, reward, done = env.step(action)
        obs_l.append(obs)
        info_l.append([float(action), reward, float(done)])
        next_l.append(nxt)
        obs = env.reset() if done else nxt
    return np.stack(obs_l), np.array(info_l, dtype=np.float32), np.stack(next_l)


def td_loss(online, target, batch, gamma):
    obs, action, reward, done, nxt = batch
    q = online(obs).gather(1, action[:, None]).squeeze(1)
    with torch.no_grad():
        best = online(nxt).argmax(dim=1, keepdim=True)
        boot = target(nxt).gather(1, best).squeeze(1)
        y = reward + gamma * (1.0 - done) * boot
    return F.mse_loss(q, y)


def polyak(target, online, tau):
    with torch.no_grad():
        for pt, po in zip(target.parameters(), online.parameters()):
            pt.mul_(1.0 - tau).add_(po, alpha=tau)


def main():
    device = torch_xla.device()
    env = PoleEnv(SEED)
    memory = DeviceReplay(512, 4, device)
    memory.prefill(*collect_random(env, 64))
    online = DuelingNet(4, 2).to(device)
    target = DuelingNet(4, 2).to(device)
    target.load_state_dict(online.state_dict())
    opt = torch.optim.Adam(online.parameters(), lr=2e-3)
    torch_xla.sync()

    obs = env.reset()
    episode_return, returns = 0.0, []
    for step in range(24):
        eps = 0.05 + 0.95 * math.exp(-step / 25.0)
        with torch.no_grad():
            q = online(torch.from_numpy(obs)[None].to(device))
        greedy = int(q.cpu().argmax(dim=1))
        action = random.randint(0, 1) if random.random() < eps else greedy
        nxt, reward, done = env.step(action)
        memory.push(obs, action, reward, done, nxt)
        episode_return += reward
        obs = nxt
        if done:
            returns.append(episode_return)
            episode_return, obs = 0.0, env.reset()

        loss = td_loss(online, target, memory.sample(32), 0.98)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt)
        polyak(target, online, 0.02)
        torch_xla.sync()
        if step % 8 == 7:
            recent = np.mean(returns[-5:]) if returns else float("nan")
            print(f"step {step + 1} loss {loss.item():.4f} return {recent:.1f} eps {eps:.2f}")


if __name__ == "__main__":
    main()
