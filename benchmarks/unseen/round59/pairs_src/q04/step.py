"""TD3 on a replay buffer of a small control task."""
import copy
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT, HID, BATCH = 11, 3, 32, 16


def mlp(din, dout):
    return nn.Sequential(nn.Linear(din, HID), nn.ReLU(), nn.Linear(HID, HID), nn.ReLU(), nn.Linear(HID, dout))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = mlp(OBS, ACT)

    def forward(self, s):
        return torch.tanh(self.body(s))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1, self.q2 = mlp(OBS + ACT, 1), mlp(OBS + ACT, 1)

    def forward(self, s, a):
        sa = torch.cat([s, a], 1)
        return self.q1(sa), self.q2(sa)


class TD3:
    def __init__(self, device, gamma=0.98, tau=0.005, noise=0.2, clip=0.5, policy_freq=2):
        self.actor, self.critic = Actor().to(device), Critic().to(device)
        self.actor_t, self.critic_t = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.opt_a = torch.optim.Adam(self.actor.parameters(), lr=3e-4, foreach=False)
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=3e-4, foreach=False)
        self.gamma, self.tau, self.noise, self.clip, self.policy_freq = gamma, tau, noise, clip, policy_freq
        self.it = 0

    @torch.no_grad()
    def soft_update(self, net, target):
        for p, t in zip(net.parameters(), target.parameters()):
            t.mul_(1 - self.tau).add_(p, alpha=self.tau)

    def train(self, s, a, r, s2, not_done, eps):
        self.it += 1
        with torch.no_grad():
            a2 = (self.actor_t(s2) + (eps * self.noise).clamp(-self.clip, self.clip)).clamp(-1, 1)
            t1, t2 = self.critic_t(s2, a2)
            target = r + not_done * self.gamma * torch.min(t1, t2)
        q1, q2 = self.critic(s, a)
        critic_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        self.opt_c.zero_grad()
        critic_loss.backward()
        self.opt_c.step()
        if self.it % self.policy_freq == 0:
            pi = self.actor(s)
            actor_loss = -self.critic.q1(torch.cat([s, pi], 1)).mean()
            self.opt_a.zero_grad()
            actor_loss.backward()
            self.opt_a.step()
            self.soft_update(self.critic, self.critic_t)
            self.soft_update(self.actor, self.actor_t)
        return critic_loss.detach()


def main():
    torch.manual_seed(2)
    device = torch_xla.device()
    agent = TD3(device)
    rng = np.random.default_rng(0)

    def sample(*shape):
        return torch.from_numpy(rng.standard_normal(shape, dtype=np.float32)).to(device)

    torch_xla.sync()
    for _ in range(8):
        s, a, r, s2, eps = sample(BATCH, OBS), sample(BATCH, ACT), sample(BATCH, 1), sample(BATCH, OBS), sample(BATCH, ACT)
        not_done = torch.from_numpy((rng.random((BATCH, 1)) > 0.1).astype(np.float32)).to(device)
        loss = agent.train(s, a.clamp(-1, 1), r, s2, not_done, eps)
        torch_xla.sync()
        print(agent.it, round(loss.item(), 4), flush=True)


if __name__ == "__main__":
    main()
