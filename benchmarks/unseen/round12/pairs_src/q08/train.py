"""TD3 on a point-mass task with a small replay buffer."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

device = xm.xla_device()


class Actor(nn.Module):
    def __init__(self, state_dim, action_dim, max_action):
        super().__init__()
        self.l1 = nn.Linear(state_dim, 32)
        self.l2 = nn.Linear(32, 32)
        self.l3 = nn.Linear(32, action_dim)
        self.max_action = max_action

    def forward(self, state):
        a = F.relu(self.l1(state))
        a = F.relu(self.l2(a))
        return self.max_action * torch.tanh(self.l3(a))


class Critic(nn.Module):
    def __init__(self, state_dim, action_dim):
        super().__init__()
        def q():
            return nn.Sequential(nn.Linear(state_dim + action_dim, 32), nn.ReLU(),
                                 nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
        self.q1, self.q2 = q(), q()

    def forward(self, s, a):
        sa = torch.cat([s, a], 1)
        return self.q1(sa), self.q2(sa)


class ReplayBuffer:
    def __init__(self, n=512):
        rng = np.random.default_rng(0)
        self.s = rng.normal(size=(n, 4)).astype(np.float32)
        self.a = rng.uniform(-1, 1, size=(n, 2)).astype(np.float32)
        self.s2 = self.s + 0.1 * np.concatenate([self.s[:, 2:], self.a], 1)
        self.r = -np.square(self.s2[:, :2]).sum(1, keepdims=True)
        self.nd = (rng.random((n, 1)) > 0.02).astype(np.float32)
        self.rng = rng

    def sample(self, k):
        i = self.rng.integers(0, len(self.s), k)
        return [torch.from_numpy(x[i]).to(device) for x in (self.s, self.a, self.s2, self.r, self.nd)]


class TD3:
    def __init__(self, state_dim, action_dim, max_action=0.8, discount=0.98, tau=0.005,
                 policy_noise=0.2, noise_clip=0.5, policy_freq=2):
        self.actor = Actor(state_dim, action_dim, max_action).to(device)
        self.actor_target = copy.deepcopy(self.actor)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic = Critic(state_dim, action_dim).to(device)
        self.critic_target = copy.deepcopy(self.critic)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=3e-4)
        self.max_action, self.discount, self.tau = max_action, discount, tau
        self.policy_noise, self.noise_clip, self.policy_freq = policy_noise, noise_clip, policy_freq
        self.total_it = 0

    def soft_update(self, net, target):
        for p, t in zip(net.parameters(), target.parameters()):
            t.data.copy_(self.tau * p.data + (1 - self.tau) * t.data)

    def train(self, buffer, batch_size=32):
        self.total_it += 1
        s, a, s2, r, not_done = buffer.sample(batch_size)
        with torch.no_grad():
            noise = (torch.randn_like(a) * self.policy_noise).clamp(-self.noise_clip, self.noise_clip)
            a2 = (self.actor_target(s2) + noise).clamp(-self.max_action, self.max_action)
            t1, t2 = self.critic_target(s2, a2)
            target = r + not_done * self.discount * torch.min(t1, t2)
        q1, q2 = self.critic(s, a)
        critic_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()
        if self.total_it % self.policy_freq == 0:
            actor_loss = -self.critic.q1(torch.cat([s, self.actor(s)], 1)).mean()
            self.actor_opt.zero_grad()
            actor_loss.backward()
            self.actor_opt.step()
            self.soft_update(self.critic, self.critic_target)
            self.soft_update(self.actor, self.actor_target)
        return critic_loss


torch.manual_seed(0)
agent, buffer = TD3(4, 2), ReplayBuffer()
for it in range(20):
    loss = agent.train(buffer)
    xm.mark_step()
    if (it + 1) % 5 == 0:
        print(f"it {it + 1} critic_loss {loss.item():.4f}")
