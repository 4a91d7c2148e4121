import copy
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT, HID = 11, 3, 32


class ReplayBuffer:
    def __init__(self, capacity, rng):
        self.rng = rng
        self.obs = np.zeros((capacity, OBS), np.float32)
        self.next_obs = np.zeros((capacity, OBS), np.float32)
        self.act = np.zeros((capacity, ACT), np.float32)
        self.rew = np.zeros((capacity, 1), np.float32)
        self.done = np.zeros((capacity, 1), np.float32)
        self.size = 0

    def add(self, o, a, r, o2, d):
        i = self.size % len(self.obs)
        self.obs[i], self.act[i], self.rew[i], self.next_obs[i], self.done[i] = o, a, r, o2, d
        self.size += 1

    def sample(self, n):
        idx = self.rng.integers(0, min(self.size, len(self.obs)), n)
        return dict(obs=self.obs[idx], act=self.act[idx], rew=self.rew[idx],
                    next_obs=self.next_obs[idx], done=self.done[idx])


class DemoBuffer:
    """Expert episodes, with the return of the episode normalised to [0, 1]."""

    def __init__(self, episodes, rng):
        self.rng = rng
        obs, act, rew, nxt, done = [], [], [], [], []
        for ep in episodes:
            scale = max(1e-6, sum(t[2] for t in ep))
            for o, a, r, o2, d in ep:
                obs.append(o)
                act.append(a)
                rew.append([r / scale])
                nxt.append(o2)
                done.append([float(d)])
        self.obs = np.stack(obs).astype(np.float32)
        self.act = np.stack(act).astype(np.float32)
        self.rew = np.asarray(rew)
        self.next_obs = np.stack(nxt).astype(np.float32)
        self.done = np.asarray(done, dtype=np.float32)

    def sample(self, n):
        idx = self.rng.integers(0, len(self.obs), n)
        return dict(obs=self.obs[idx], act=self.act[idx], rew=self.rew[idx],
                    next_obs=self.next_obs[idx], done=self.done[idx])


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, HID), nn.ReLU(), nn.Linear(HID, HID), nn.ReLU(), nn.Linear(HID, o))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(OBS, 2 * ACT)

    def forward(self, obs, eps):
        mu, log_std = self.net(obs).chunk(2, dim=-1)
        log_std = -5.0 + 3.5 * (torch.tanh(log_std) + 1.0)
        u = mu + log_std.exp() * eps
        logp = (-0.5 * eps ** 2 - log_std - 0.5 * math.log(2 * math.pi)).sum(-1, keepdim=True)
        logp = logp - (2.0 * (math.log(2.0) - u - F.softplus(-2.0 * u))).sum(-1, keepdim=True)
        return torch.tanh(u), logp


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1 = mlp(OBS + ACT, 1)
        self.q2 = mlp(OBS + ACT, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1)
        return self.q1(x), self.q2(x)


class SAC:
    def __init__(self, device, gamma=0.99, tau=0.005, lr=3e-4):
        self.device, self.gamma, self.tau = device, gamma, tau
        self.actor = Actor().to(device)
        self.critic = Critic().to(device)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_alpha = torch.zeros(1, device=device, requires_grad=True)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=lr)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=lr)
        self.alpha_opt = torch.optim.Adam([self.log_alpha], lr=lr)

    def update(self, batch):
        b = {k: torch.from_numpy(v).to(self.device) for k, v in batch.items()}
        n = b["obs"].shape[0]
        eps = torch.randn(2, n, ACT).to(self.device)
        alpha = self.log_alpha.detach().exp()

        with torch.no_grad():
            a2, logp2 = self.actor(b["next_obs"], eps[0])
            t1, t2 = self.target(b["next_obs"], a2)
            backup = b["rew"] + self.gamma * (1.0 - b["done"]) * (torch.min(t1, t2) - alpha * logp2)
        q1, q2 = self.critic(b["obs"], b["act"])
        td1, td2 = q1 - backup, q2 - backup
        critic_loss = 0.5 * (td1.pow(2).mean() + td2.pow(2).mean())
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()

        self.critic.requires_grad_(False)
        a, logp = self.actor(b["obs"], eps[1])
        actor_loss = (alpha * logp - torch.min(*self.critic(b["obs"], a))).mean()
        self.actor_opt.zero_grad()
        actor_loss.backward()
        self.actor_opt.step()
        self.critic.requires_grad_(True)

        alpha_loss = -(self.log_alpha * (logp.detach() - ACT)).mean()
        self.alpha_opt.zero_grad()
        alpha_loss.backward()
        self.alpha_opt.step()

        with torch.no_grad():
            for p, t in zip(self.critic.parameters(), self.target.parameters()):
                t.lerp_(p, self.tau)
        return critic_loss.detach(), actor_loss.detach()


def rollout(rng, n):
    o = rng.standard_normal(OBS)
    for t in range(n):
        a = np.tanh(rng.standard_normal(ACT))
        o2 = 0.9 * o + 0.1 * rng.standard_normal(OBS)
        yield o, a, float(1.0 + o2[0]), o2, t == n - 1
        o = o2


def main(steps=9, batch_size=16, demo_every=4):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    replay = ReplayBuffer(1000, rng)
    for tr in rollout(rng, 200):
        replay.add(*tr)
    demos = DemoBuffer([list(rollout(rng, 50)) for _ in range(3)], rng)
    agent = SAC(torch_xla.device())
    torch_xla.sync()
    for step in range(steps):
        source = demos if step % demo_every == demo_every - 1 else replay
        critic_loss, actor_loss = agent.update(source.sample(batch_size))
        torch_xla.sync()
        print(f"step {step} critic {critic_loss.item():.4f} actor {actor_loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
