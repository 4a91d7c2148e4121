"""TD3 on a small pendulum-like plant; one gradient update per environment step."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT, BATCH = 5, 2, 32


def mlp(*sizes, out=None):
    layers = []
    for a, b in zip(sizes[:-2], sizes[1:-1]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    layers.append(nn.Linear(sizes[-2], sizes[-1]))
    return nn.Sequential(*layers, *([out] if out else []))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1 = mlp(OBS + ACT, 24, 24, 1)
        self.q2 = mlp(OBS + ACT, 24, 24, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], -1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class Replay:
    def __init__(self, capacity=2000, seed=0):
        self.rng = np.random.default_rng(seed)
        self.store = [np.zeros((capacity, d), np.float32) for d in (OBS, ACT, OBS, 1, 1)]
        self.size, self.head, self.capacity = 0, 0, capacity

    def add(self, *item):
        for buf, v in zip(self.store, item):
            buf[self.head] = v
        self.head = (self.head + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, device):
        idx = self.rng.integers(0, self.size, BATCH)
        return [torch.from_numpy(b[idx]).to(device) for b in self.store]


class TD3:
    def __init__(self, device, gamma=0.98, tau=0.01, smooth=0.2, clip=0.5, every=2):
        self.actor = mlp(OBS, 24, 24, ACT, out=nn.Tanh()).to(device)
        self.critic = Critic().to(device)
        self.actor_target = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.gamma, self.tau, self.smooth, self.clip, self.every = gamma, tau, smooth, clip, every
        self.updates = 0
        self.q_mean = torch.zeros((), device=device)

    def update(self, obs, act, nxt, reward, done):
        self.updates += 1
        with torch.no_grad():
            noise = (torch.randn_like(act) * self.smooth).clamp(-self.clip, self.clip)
            a = (self.actor_target(nxt) + noise).clamp(-1, 1)
            target = reward.squeeze(-1) + self.gamma * (1 - done.squeeze(-1)) * torch.minimum(*self.critic_target(nxt, a))
        q1, q2 = self.critic(obs, act)
        critic_loss = F.smooth_l1_loss(q1, target) + F.smooth_l1_loss(q2, target)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()
        self.q_mean.mul_(0.99).add_(q1.detach().mean(), alpha=0.01)
        if self.updates % self.every == 0:
            self.critic.requires_grad_(False)
            actor_loss = -self.critic(obs, self.actor(obs))[0].mean()
            self.actor_opt.zero_grad()
            actor_loss.backward()
            self.actor_opt.step()
            self.critic.requires_grad_(True)
            self.soft_update()

    @torch.no_grad()
    def soft_update(self):
        for net, target in ((self.actor, self.actor_target), (self.critic, self.critic_target)):
            for p, t in zip(net.parameters(), target.parameters()):
                t.lerp_(p, self.tau)


class Plant:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.a = 0.9 * np.eye(OBS) + 0.05 * self.rng.normal(size=(OBS, OBS))
        self.b = self.rng.normal(size=(OBS, ACT)) * 0.3
        self.x = self.rng.normal(size=OBS)

    def step(self, u):
        prev = self.x
        self.x = np.clip(self.a @ prev + self.b @ u, -3, 3)
        done = float(np.abs(self.x).max() >= 3)
        r = -np.square(self.x).sum() - 0.1 * np.square(u).sum()
        item = (prev, u, self.x, r, done)
        if done:
            self.x = self.rng.normal(size=OBS)
        return item


def main(warm=200, steps=10):
    torch.manual_seed(1)
    device = torch_xla.device()
    agent, plant, replay = TD3(device), Plant(2), Replay()
    rng = np.random.default_rng(7)
    for _ in range(warm):
        replay.add(*plant.step(rng.uniform(-1, 1, ACT)))
    torch_xla.sync()
    for _ in range(steps):
        with torch.no_grad():
            u = agent.actor(torch.tensor(plant.x, dtype=torch.float32, device=device)).cpu().numpy()
        replay.add(*plant.step(np.clip(u + 0.1 * rng.normal(size=ACT), -1, 1)))
        agent.update(*replay.sample(device))
        torch_xla.sync()
    print("q", agent.q_mean.item())


if __name__ == "__main__":
    main()
