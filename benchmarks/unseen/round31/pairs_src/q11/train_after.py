"""TD3+BC on a fixed replay dataset (offline RL), one graph per iteration."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

OBS, ACT, HID = 11, 3, 32
BATCH = 64


def mlp(i, o, hidden=HID, norm=False):
    layers = []
    for _ in range(2):
        layers.append(nn.Linear(i, hidden))
        if norm:
            layers.append(nn.LayerNorm(hidden))
        layers.append(nn.ReLU())
        i = hidden
    layers.append(nn.Linear(i, o))
    return nn.Sequential(*layers)


class Actor(nn.Module):
    def __init__(self, max_action):
        super().__init__()
        self.net = mlp(OBS, ACT)
        self.max_action = max_action

    def forward(self, obs):
        return self.max_action * torch.tanh(self.net(obs))


class TwinQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1 = mlp(OBS + ACT, 1, norm=True)
        self.q2 = mlp(OBS + ACT, 1, norm=True)

    def forward(self, obs, act):
        sa = torch.cat([obs, act], dim=-1)
        return self.q1(sa), self.q2(sa)

    def first(self, obs, act):
        return self.q1(torch.cat([obs, act], dim=-1))


class Replay:
    def __init__(self, n, device, seed=0):
        g = np.random.default_rng(seed)
        obs = g.normal(size=(n, OBS)).astype(np.float32)
        act = np.tanh(obs[:, :ACT] + 0.3 * g.normal(size=(n, ACT))).astype(np.float32)
        nxt = (0.95 * obs + 0.1 * g.normal(size=(n, OBS))).astype(np.float32)
        rew = (-np.square(obs).mean(1) - 0.1 * np.square(act).sum(1)).astype(np.float32)
        done = (g.random(n) < 0.02).astype(np.float32)
        self.mean, self.std = obs.mean(0), obs.std(0) + 1e-3
        self.data = [(obs - self.mean) / self.std, act, rew[:, None], (nxt - self.mean) / self.std, 1.0 - done[:, None]]
        self.n, self.device, self.rng = n, device, g

    def sample(self, k):
        idx = self.rng.integers(0, self.n, size=k)
        return [torch.from_numpy(d[idx]).to(self.device) for d in self.data]


class TD3BC:
    def __init__(self, device, gamma=0.99, tau=0.005, policy_noise=0.2, noise_clip=0.5, policy_freq=2, alpha=2.5, max_action=1.0):
        self.actor = Actor(max_action).to(device)
        self.critic = TwinQ().to(device)
        self.actor_target = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=3e-4)
        self.gamma, self.tau = gamma, tau
        self.policy_noise, self.noise_clip = policy_noise * max_action, noise_clip * max_action
        self.policy_freq, self.alpha, self.max_action = policy_freq, alpha, max_action
        self.it = 0

    def critic_loss(self, obs, act, rew, nxt, not_done):
        with torch.no_grad():
            noise = (torch.randn_like(act) * self.policy_noise).clamp(-self.noise_clip, self.noise_clip)
            next_act = (self.actor_target(nxt) + noise).clamp(-self.max_action, self.max_action)
            tq1, tq2 = self.critic_target(nxt, next_act)
            target = rew + not_done * self.gamma * torch.min(tq1, tq2)
        q1, q2 = self.critic(obs, act)
        return F.mse_loss(q1, target) + F.mse_loss(q2, target)

    @staticmethod
    def normalize_q(q, eps=1e-6):
        """Scale-free values, so that alpha means the same for every dataset."""
        return q / q.abs().mean().clamp(min=eps)

    def actor_loss(self, obs, act):
        pi = self.actor(obs)
        q = self.normalize_q(self.critic.first(obs, pi))
        return F.mse_loss(pi, act) - self.alpha * q.mean()

    @torch.no_grad()
    def soft_update(self):
        for net, tgt in ((self.critic, self.critic_target), (self.actor, self.actor_target)):
            for p, tp in zip(net.parameters(), tgt.parameters()):
                tp.mul_(1 - self.tau).add_(p, alpha=self.tau)

    def train(self, batch):
        self.it += 1
        obs, act, rew, nxt, not_done = batch
        closs = self.critic_loss(obs, act, rew, nxt, not_done)
        self.critic_opt.zero_grad()
        closs.backward()
        self.critic_opt.step()
        logs = {"critic": closs.detach()}
        if self.it % self.policy_freq == 0:
            aloss = self.actor_loss(obs, act)
            self.actor_opt.zero_grad()
            aloss.backward()
            self.actor_opt.step()
            self.soft_update()
            logs["actor"] = aloss.detach()
        return logs


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    xm.set_rng_state(0, device)
    replay = Replay(2000, device)
    agent = TD3BC(device)
    torch_xla.sync()
    for it in range(6):
        logs = agent.train(replay.sample(BATCH))
        torch_xla.sync()
        print(it, {k: round(v.item(), 5) for k, v in logs.items()})


if __name__ == "__main__":
    main()
