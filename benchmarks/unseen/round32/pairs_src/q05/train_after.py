"""Soft actor-critic for a pendulum-like plant, transitions from a small replay buffer."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

OBS, ACT = 3, 1
GAMMA, TAU = 0.98, 0.01


class Actor(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.mean = nn.Linear(width, ACT)
        self.log_std = nn.Linear(width, ACT)

    def forward(self, obs):
        h = self.body(obs)
        mean, log_std = self.mean(h), self.log_std(h).clamp(-5.0, 2.0)
        noise = torch.randn_like(mean)
        pre = mean + log_std.exp() * noise
        logp = (-0.5 * noise ** 2 - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)
        logp = logp - (2 * (math.log(2.0) - pre - F.softplus(-2 * pre))).sum(-1)
        return torch.tanh(pre), logp


class Critic(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.q1 = nn.Sequential(nn.Linear(OBS + ACT, width), nn.ReLU(), nn.Linear(width, 1))
        self.q2 = nn.Sequential(nn.Linear(OBS + ACT, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, obs, act):
        x = torch.cat([obs, act], -1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class Learner:
    def __init__(self, device, lr=3e-4, target_entropy=-float(ACT)):
        self.actor = Actor().to(device)
        self.critic = Critic().to(device)
        self.target = Critic().to(device)
        self.target.load_state_dict(self.critic.state_dict())
        self.log_alpha = nn.Parameter(torch.tensor(-1.0, device=device))
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=lr)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=lr)
        self.alpha_opt = torch.optim.Adam([self.log_alpha], lr=lr)
        self.target_entropy = target_entropy

    @property
    def alpha(self):
        return self.log_alpha.exp()

    def update(self, obs, act, rew, nxt, done):
        with torch.no_grad():
            nact, nlogp = self.actor(nxt)
            tq = torch.minimum(*self.target(nxt, nact)) - self.alpha * nlogp
            backup = rew + GAMMA * (1 - done) * tq
        q1, q2 = self.critic(obs, act)
        critic_loss = F.mse_loss(q1, backup) + F.mse_loss(q2, backup)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()

        for p in self.critic.parameters():
            p.requires_grad_(False)
        pi, logp = self.actor(obs)
        actor_loss = (self.alpha * logp - torch.minimum(*self.critic(obs, pi))).mean()
        alpha_loss = -(self.log_alpha * (logp.detach() + self.target_entropy)).mean()
        self.actor_opt.zero_grad()
        self.alpha_opt.zero_grad()
        (actor_loss + alpha_loss).backward()
        self.actor_opt.step()
        self.alpha_opt.step()
        for p in self.critic.parameters():
            p.requires_grad_(True)

        with torch.no_grad():
            for t, p in zip(self.target.parameters(), self.critic.parameters()):
                t.lerp_(p, TAU)
        return critic_loss.detach(), actor_loss.detach(), self.alpha.detach()


def replay(n, batch, seed):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        th = rng.uniform(-np.pi, np.pi, batch)
        om = rng.uniform(-8, 8, batch)
        a = rng.uniform(-1, 1, batch)
        om2 = np.clip(om + 0.05 * (15 * np.sin(th) + 6 * a), -8, 8)
        th2 = th + 0.05 * om2
        obs = np.stack([np.cos(th), np.sin(th), om / 8], -1)
        nxt = np.stack([np.cos(th2), np.sin(th2), om2 / 8], -1)
        rew = -(th ** 2 + 0.1 * om ** 2 + 0.001 * a ** 2)
        done = (rng.random(batch) < 0.02).astype(np.float32)
        yield [torch.tensor(x, dtype=torch.float32) for x in (obs, a[:, None], rew, nxt, done)]


def main(steps=4):
    torch.manual_seed(0)
    device = torch_xla.device()
    learner = Learner(device)
    xm.mark_step()
    for step, batch in enumerate(replay(steps, 16, seed=9)):
        out = learner.update(*[x.to(device) for x in batch])
        xm.mark_step()
        print(step, *[round(v.item(), 5) for v in out])


if __name__ == "__main__":
    main()
