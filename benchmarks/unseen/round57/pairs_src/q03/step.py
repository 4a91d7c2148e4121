"""TD3 on a toy continuous control task: one learner update per environment step."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

OBS_DIM, ACT_DIM, MAX_ACTION = 11, 3, 2.0


class Actor(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.l1 = nn.Linear(OBS_DIM, hidden)
        self.l2 = nn.Linear(hidden, hidden)
        self.l3 = nn.Linear(hidden, ACT_DIM)

    def forward(self, obs):
        x = F.relu(self.l1(obs))
        x = F.relu(self.l2(x))
        return MAX_ACTION * torch.tanh(self.l3(x))


class Critic(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.q1 = self._mlp(hidden)
        self.q2 = self._mlp(hidden)

    @staticmethod
    def _mlp(hidden):
        return nn.Sequential(
            nn.Linear(OBS_DIM + ACT_DIM, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=1)
        return self.q1(x), self.q2(x)


class ReplayBuffer:
    def __init__(self, capacity):
        self.obs = np.zeros((capacity, OBS_DIM), np.float32)
        self.act = np.zeros((capacity, ACT_DIM), np.float32)
        self.rew = np.zeros((capacity, 1), np.float32)
        self.next_obs = np.zeros((capacity, OBS_DIM), np.float32)
        self.not_done = np.zeros((capacity, 1), np.float32)
        self.ptr, self.size, self.capacity = 0, 0, capacity

    def add(self, obs, act, rew, next_obs, done):
        i = self.ptr
        self.obs[i], self.act[i], self.rew[i], self.next_obs[i], self.not_done[i] = obs, act, rew, next_obs, 1.0 - done
        self.ptr = (self.ptr + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, batch_size, rng, device):
        idx = rng.integers(0, self.size, batch_size)
        fields = (self.obs, self.act, self.rew, self.next_obs, self.not_done)
        return [torch.from_numpy(f[idx]).to(device) for f in fields]


class TD3:
    def __init__(self, device, discount=0.99, tau=0.005, policy_noise=0.2, noise_clip=0.5, policy_freq=2):
        self.actor = Actor().to(device)
        self.actor_target = copy.deepcopy(self.actor)
        self.critic = Critic().to(device)
        self.critic_target = copy.deepcopy(self.critic)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=3e-4)
        self.discount, self.tau = discount, tau
        self.policy_noise = policy_noise * MAX_ACTION
        self.noise_clip = noise_clip * MAX_ACTION
        self.policy_freq = policy_freq
        self.total_it = 0

    def train(self, batch):
        self.total_it += 1
        obs, act, rew, next_obs, not_done = batch

        with torch.no_grad():
            noise = (torch.randn_like(act) * self.policy_noise).clamp(-self.noise_clip, self.noise_clip)
            next_act = (self.actor_target(next_obs) + noise).clamp(-MAX_ACTION, MAX_ACTION)
            tq1, tq2 = self.critic_target(next_obs, next_act)
            target = rew + not_done * self.discount * torch.min(tq1, tq2)

        q1, q2 = self.critic(obs, act)
        critic_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()

        if self.total_it % self.policy_freq == 0:
            self.critic.requires_grad_(False)
            actor_loss = -self.critic(obs, self.actor(obs))[0].mean()
            self.actor_opt.zero_grad()
            actor_loss.backward()
            self.actor_opt.step()
            self.critic.requires_grad_(True)
            with torch.no_grad():
                for net, tgt in ((self.critic, self.critic_target), (self.actor, self.actor_target)):
                    for p, tp in zip(net.parameters(), tgt.parameters()):
                        tp.mul_(1 - self.tau).add_(p, alpha=self.tau)
        return critic_loss.detach()


def env_step(obs, act, rng):
    next_obs = 0.95 * obs + 0.05 * rng.standard_normal(OBS_DIM)
    next_obs[:ACT_DIM] += 0.1 * act
    return next_obs, -float(np.square(next_obs).sum()), float(rng.random() < 0.01)


def main():
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    device = torch_xla.device()
    agent = TD3(device)
    torch_xla.sync()
    buffer = ReplayBuffer(1000)
    obs = rng.standard_normal(OBS_DIM)
    losses = []
    for t in range(72):
        act = rng.uniform(-MAX_ACTION, MAX_ACTION, ACT_DIM)
        next_obs, rew, done = env_step(obs, act, rng)
        buffer.add(obs, act, rew, next_obs, done)
        obs = rng.standard_normal(OBS_DIM) if done else next_obs
        if t >= 64:
            losses.append(agent.train(buffer.sample(32, rng, device)))
            torch_xla.sync()
    for i, loss in enumerate(losses):
        xm.master_print(f"update {i + 1} critic loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
