"""Soft actor-critic on a toy reaching task, learner on an XLA device, actor rollouts on the host."""
import copy
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

OBS, ACT, HID = 6, 2, 24


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, HID), nn.ReLU(), nn.Linear(HID, HID), nn.ReLU(), nn.Linear(HID, o))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(OBS, 2 * ACT)

    def forward(self, obs):
        mu, log_std = self.net(obs).chunk(2, -1)
        log_std = -5 + 3.5 * (torch.tanh(log_std) + 1)
        eps = torch.randn_like(mu)
        u = mu + log_std.exp() * eps
        logp = (-0.5 * eps.pow(2) - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)
        logp = logp - (2 * (math.log(2) - u - F.softplus(-2 * u))).sum(-1)
        return torch.tanh(u), logp


class TwinQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1, self.q2 = mlp(OBS + ACT, 1), mlp(OBS + ACT, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], -1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class Learner:
    def __init__(self, dev, gamma=0.98, tau=0.01):
        self.gamma, self.tau = gamma, tau
        self.actor, self.critic = Actor().to(dev), TwinQ().to(dev)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_alpha = torch.full((), math.log(0.2), device=dev, requires_grad=True)
        self.target_entropy = -float(ACT)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.policy_opt = torch.optim.Adam([
            {"params": self.actor.parameters(), "lr": 3e-4},
            {"params": [self.log_alpha], "lr": 1e-3},
        ])

    def update_critic(self, o, a, r, o2, d):
        with torch.no_grad():
            a2, lp2 = self.actor(o2)
            q = torch.minimum(*self.target(o2, a2)) - self.log_alpha.exp() * lp2
            y = r + self.gamma * (1 - d) * q
        q1, q2 = self.critic(o, a)
        loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        self.critic_opt.zero_grad()
        loss.backward()
        self.critic_opt.step()
        return loss.detach()

    def update_policy(self, o):
        act, logp = self.actor(o)
        for p in self.critic.parameters():
            p.requires_grad_(False)
        q = torch.minimum(*self.critic(o, act))
        alpha = self.log_alpha.exp()
        actor_loss = (alpha * logp - q).mean()
        alpha_loss = -(alpha * (logp.detach() + self.target_entropy)).mean()
        self.policy_opt.zero_grad()
        (actor_loss + alpha_loss).backward()
        self.policy_opt.step()
        for p in self.critic.parameters():
            p.requires_grad_(True)
        return actor_loss.detach()

    @torch.no_grad()
    def sync_target(self):
        for t, s in zip(self.target.parameters(), self.critic.parameters()):
            t.lerp_(s, self.tau)

    def update(self, batch):
        o, a, r, o2, d = batch
        lq = self.update_critic(o, a, r, o2, d)
        lp = self.update_policy(o)
        self.sync_target()
        return lq, lp


class Buffer:
    def __init__(self, n=512, seed=0):
        r = np.random.RandomState(seed)
        self.o = r.randn(n, OBS).astype(np.float32)
        self.a = r.uniform(-1, 1, (n, ACT)).astype(np.float32)
        self.r = -np.abs(self.o[:, :ACT] - self.a).sum(1)
        self.o2 = (self.o + 0.1 * r.randn(n, OBS)).astype(np.float32)
        self.d = (r.rand(n) < 0.05).astype(np.float32)
        self.rng = r

    def sample(self, k, dev):
        i = self.rng.randint(0, len(self.o), k)
        return [torch.from_numpy(x[i]).to(dev) for x in (self.o, self.a, self.r, self.o2, self.d)]


def main(steps=5):
    torch.manual_seed(3)
    dev = torch_xla.device()
    learner, buf = Learner(dev), Buffer()
    for s in range(steps):
        lq, lp = learner.update(buf.sample(32, dev))
        xm.mark_step()
        print(s, lq.item(), lp.item())


if __name__ == "__main__":
    main()
