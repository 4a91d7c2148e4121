import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT = 11, 3


def mlp(sizes, out=None):
    mods = []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        mods.append(nn.Linear(a, b))
        if i < len(sizes) - 2:
            mods.append(nn.ReLU())
    if out is not None:
        mods.append(out)
    return nn.Sequential(*mods)


class Critic(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.q1 = mlp([OBS + ACT, hidden, hidden, 1])
        self.q2 = mlp([OBS + ACT, hidden, hidden, 1])

    def forward(self, obs, act):
        x = torch.cat([obs, act], -1)
        return self.q1(x), self.q2(x)


class Replay:
    def __init__(self, size, seed=0):
        rng = np.random.default_rng(seed)
        self.rng = rng
        self.data = dict(
            obs=rng.normal(size=(size, OBS)),
            act=rng.uniform(-1, 1, size=(size, ACT)),
            rew=rng.normal(size=(size, 1)),
            nxt=rng.normal(size=(size, OBS)),
            cont=(rng.random((size, 1)) > 0.05),
        )
        self.size = size

    def sample(self, n, device):
        idx = self.rng.integers(0, self.size, n)
        return {k: torch.as_tensor(v[idx], dtype=torch.float32).to(device) for k, v in self.data.items()}


class TD3:
    def __init__(self, device, hidden=48, gamma=0.99, tau=0.005, noise=0.2, clip=0.5, every=2):
        self.actor = mlp([OBS, hidden, hidden, ACT], nn.Tanh()).to(device)
        self.critic = Critic(hidden).to(device)
        self.actor_t = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_t = copy.deepcopy(self.critic).requires_grad_(False)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.gamma, self.tau, self.noise, self.clip, self.every = gamma, tau, noise, clip, every
        self.n = 0

    @torch.no_grad()
    def target(self, b):
        eps = (torch.randn_like(b["act"]) * self.noise).clamp(-self.clip, self.clip)
        act = (self.actor_t(b["nxt"]) + eps).clamp(-1, 1)
        q1, q2 = self.critic_t(b["nxt"], act)
        return b["rew"] + self.gamma * b["cont"] * torch.min(q1, q2)

    def update_critic(self, b):
        y = self.target(b)
        q1, q2 = self.critic(b["obs"], b["act"])
        loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        self.critic_opt.zero_grad()
        loss.backward()
        self.critic_opt.step()
        return loss.detach()

    def update_actor(self, b):
        for p in self.critic.parameters():
            p.requires_grad_(False)
        loss = -self.critic.q1(torch.cat([b["obs"], self.actor(b["obs"])], -1)).mean()
        self.actor_opt.zero_grad()
        loss.backward()
        self.actor_opt.step()
        for p in self.critic.parameters():
            p.requires_grad_(True)

    @torch.no_grad()
    def polyak(self):
        for net, tgt in ((self.actor, self.actor_t), (self.critic, self.critic_t)):
            for p, t in zip(net.parameters(), tgt.parameters()):
                t.lerp_(p, self.tau)

    def update(self, b):
        self.n += 1
        loss = self.update_critic(b)
        if self.n % self.every == 0:
            self.update_actor(b)
            self.polyak()
        torch_xla.sync()
        return loss


def main():
    torch.manual_seed(3)
    device = torch_xla.device()
    agent, replay = TD3(device), Replay(512)
    for _ in range(8):
        agent.update(replay.sample(32, device))


if __name__ == "__main__":
    main()
