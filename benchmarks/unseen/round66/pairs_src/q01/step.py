"""Building climate control: continuous valve/fan set points, twin critics with target smoothing."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.debug.metrics as met

OBS, ACT, HID = 18, 4, 48
MAX_ACTION = 1.0


class Replay:
    def __init__(self, capacity, rng):
        self.rng = rng
        self.s = rng.standard_normal((capacity, OBS)).astype(np.float32)
        self.a = rng.uniform(-1, 1, (capacity, ACT)).astype(np.float32)
        self.s2 = self.s + 0.1 * rng.standard_normal((capacity, OBS)).astype(np.float32)
        self.r = -np.abs(self.s2[:, :1]) - 0.01 * (self.a ** 2).sum(1, keepdims=True)
        self.done = (rng.random((capacity, 1)) < 0.02).astype(np.float32)

    def sample(self, n, device):
        i = self.rng.integers(0, len(self.s), n)
        return [torch.from_numpy(v[i]).float().to(device)
                for v in (self.s, self.a, self.r, self.s2, self.done)]


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(OBS, HID)
        self.l2 = nn.Linear(HID, HID)
        self.mu = nn.Linear(HID, ACT)

    def forward(self, s):
        h = F.relu(self.l1(s))
        h = F.relu(self.l2(h))
        return MAX_ACTION * torch.tanh(self.mu(h))


class TwinQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1 = self._head()
        self.q2 = self._head()

    @staticmethod
    def _head():
        return nn.Sequential(
            nn.Linear(OBS + ACT, HID), nn.ReLU(), nn.Linear(HID, 1))

    def forward(self, s, a):
        x = torch.cat([s, a], dim=1)
        return self.q1(x), self.q2(x)


class Agent:
    def __init__(self, device, gamma=0.98, tau=0.005, sigma=0.2, clip=0.5, policy_delay=2):
        self.device = device
        self.actor = Actor().to(device)
        self.critic = TwinQ().to(device)
        self.actor_t = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_t = copy.deepcopy(self.critic).requires_grad_(False)
        self.opt_a = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.gamma, self.tau, self.sigma, self.clip = gamma, tau, sigma, clip
        self.policy_delay = policy_delay
        self.it = 0

    def target(self, r, s2, done):
        with torch.no_grad():
            a2 = self.actor_t(s2)
            eps = (torch.randn_like(a2) * self.sigma).clamp(-self.clip, self.clip)
            a2 = (a2 + eps).clamp(-MAX_ACTION, MAX_ACTION)
            q1, q2 = self.critic_t(s2, a2)
            return r + self.gamma * (1.0 - done) * torch.min(q1, q2)

    def soft_update(self, net, net_t):
        with torch.no_grad():
            for p, pt in zip(net.parameters(), net_t.parameters()):
                pt.mul_(1 - self.tau).add_(p, alpha=self.tau)

    def update(self, batch):
        self.it += 1
        s, a, r, s2, done = batch
        y = self.target(r, s2, done)
        q1, q2 = self.critic(s, a)
        loss = F.smooth_l1_loss(q1, y) + F.smooth_l1_loss(q2, y)
        self.opt_c.zero_grad()
        loss.backward()
        self.opt_c.step()

        if self.it % self.policy_delay == 0:
            pi = self.actor(s)
            loss_a = -self.critic(s, pi)[0].mean()
            self.opt_a.zero_grad()
            loss_a.backward()
            self.opt_a.step()
            self.soft_update(self.actor, self.actor_t)
            self.soft_update(self.critic, self.critic_t)
        return loss.detach()


def main():
    torch.manual_seed(7)
    device = xm.xla_device()
    buf = Replay(2000, np.random.default_rng(3))
    agent = Agent(device)
    for it in range(10):
        loss = agent.update(buf.sample(64, device))
        torch_xla.sync()
        print(it, f"{loss.item():.4f}", "compiles", met.counter_value("UncachedCompile") or 0)


if __name__ == "__main__":
    main()
