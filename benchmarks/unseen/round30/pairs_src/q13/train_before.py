"""Tiny DQN on a grid world, replay from synthetic transitions."""
from collections import namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

Batch = namedtuple("Batch", "obs action reward next_obs done")


class ReplayBuffer:
    def __init__(self, capacity, side, n_actions, seed=0):
        rng = np.random.RandomState(seed)
        self.rng = rng
        self.obs = rng.rand(capacity, 3, side, side).astype(np.float32)
        self.next_obs = np.roll(self.obs, 1, axis=3)
        self.action = rng.randint(0, n_actions, capacity)
        self.reward = rng.randn(capacity).astype(np.float32)
        self.done = (rng.rand(capacity) < 0.1).astype(np.float32)

    def sample(self, n, device):
        idx = self.rng.randint(0, len(self.action), n)
        cols = (self.obs, self.action, self.reward, self.next_obs, self.done)
        return Batch(*(torch.from_numpy(c[idx]).to(device) for c in cols))


class DuelingNet(nn.Module):
    def __init__(self, side, n_actions, width=32):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * (side // 2)**2, width), nn.ReLU())
        self.value = nn.Linear(width, 1)
        self.advantage = nn.Linear(width, n_actions)

    def forward(self, obs):
        h = self.trunk(obs)
        adv = self.advantage(h)
        return self.value(h) + adv - adv.mean(dim=1, keepdim=True)


class Agent:
    def __init__(self, side=8, n_actions=4, gamma=0.97, lr=1e-3, max_norm=10.0):
        self.device = torch_xla.device()
        self.gamma = gamma
        self.max_norm = max_norm
        self.net = DuelingNet(side, n_actions).to(self.device)
        self.opt = torch.optim.RMSprop(self.net.parameters(), lr=lr, alpha=0.95, eps=1e-5)

    def td_target(self, batch):
        best = self.net(batch.next_obs).max(dim=1).values
        return batch.reward + self.gamma * (1.0 - batch.done) * best

    def update(self, batch):
        q = self.net(batch.obs).gather(1, batch.action.unsqueeze(1)).squeeze(1)
        target = self.td_target(batch)
        loss = F.smooth_l1_loss(q, target)
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), self.max_norm, foreach=False)
        self.opt.step()
        xm.mark_step()
        return loss.detach(), (target - q).detach().abs().mean()


def main():
    torch.manual_seed(11)
    buffer = ReplayBuffer(256, 8, 4)
    agent = Agent()
    for it in range(4):
        loss, td = agent.update(buffer.sample(32, agent.device))
        print(f"iter {it}: huber {loss.item():.5f} |td| {td.item():.5f}")


if __name__ == "__main__":
    main()
