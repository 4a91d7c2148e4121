"""Soft actor-critic update for a hopper-like robot."""
import math
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT = 11, 3
LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0


class Transition(NamedTuple):
    obs: torch.Tensor
    act: torch.Tensor
    rew: torch.Tensor
    next_obs: torch.Tensor
    done: torch.Tensor


def mlp(sizes):
    layers = []
    for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
        layers.append(nn.Linear(a, b))
        if i < len(sizes) - 2:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class TwinCritic(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.heads = nn.ModuleList(mlp([OBS + ACT, hidden, 1]) for _ in range(2))

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1)
        return [head(x)[..., 0] for head in self.heads]

    def minimum(self, obs, act):
        return torch.minimum(*self(obs, act))


class SquashedGaussian(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.mean = nn.Linear(hidden, ACT)
        self.log_std = nn.Linear(hidden, ACT)

    def forward(self, obs):
        h = self.body(obs)
        mid, half = (LOG_STD_MAX + LOG_STD_MIN) / 2, (LOG_STD_MAX - LOG_STD_MIN) / 2
        log_std = mid + half * torch.tanh(self.log_std(h))
        mean = self.mean(h)
        noise = torch.randn_like(mean)
        action = torch.tanh(torch.addcmul(mean, noise, log_std.exp()))
        log_prob = -0.5 * (noise.square() + math.log(2 * math.pi)) - log_std
        return action, (log_prob - torch.log(1 - action.square() + 1e-6)).sum(-1)


@torch.no_grad()
def polyak(source, target, tau):
    for p, tp in zip(source.parameters(), target.parameters()):
        tp.lerp_(p, tau)


def minimize(opt, loss):
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss


class SAC:
    def __init__(self, device, gamma=0.99, tau=0.005, lr=3e-4):
        self.gamma, self.tau = gamma, tau
        self.log_alpha = nn.Parameter(torch.zeros(1, device=device))
        self.critic = TwinCritic().to(device)
        self.target = TwinCritic().to(device)
        self.target.load_state_dict(self.critic.state_dict())
        self.actor = SquashedGaussian().to(device)
        self.opts = {
            "critic": torch.optim.Adam(self.critic.parameters(), lr=lr),
            "actor": torch.optim.Adam(self.actor.parameters(), lr=lr),
            "alpha": torch.optim.Adam([self.log_alpha], lr=lr),
        }

    @torch.no_grad()
    def td_target(self, batch, alpha):
        act, logp = self.actor(batch.next_obs)
        value = self.target.minimum(batch.next_obs, act) - alpha * logp
        return torch.addcmul(batch.rew, 1 - batch.done, value, value=self.gamma)

    def critic_loss(self, batch, alpha):
        y = self.td_target(batch, alpha)
        return sum((q - y).square().mean() for q in self.critic(batch.obs, batch.act))

    def update(self, batch):
        alpha = self.log_alpha.detach().exp()
        q_loss = minimize(self.opts["critic"], self.critic_loss(batch, alpha))
        act, logp = self.actor(batch.obs)
        actor_loss = minimize(self.opts["actor"], (alpha * logp - self.critic.minimum(batch.obs, act)).mean())
        entropy_gap = ACT - logp.detach()
        alpha_loss = minimize(self.opts["alpha"], (self.log_alpha.exp() * entropy_gap).mean())
        polyak(self.critic, self.target, self.tau)
        return q_loss, actor_loss, alpha_loss


def replay(device, steps, batch=16, seed=0):
    g = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        yield Transition(*[t.to(device) for t in (
            torch.randn(batch, OBS, generator=g), torch.rand(batch, ACT, generator=g) * 2 - 1,
            torch.randn(batch, generator=g), torch.randn(batch, OBS, generator=g),
            (torch.rand(batch, generator=g) < 0.1).float())])


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    agent = SAC(device)
    torch_xla.sync()
    for step, batch in enumerate(replay(device, 5)):
        losses = agent.update(batch)
        torch_xla.sync()
        print(step, *[f"{x.item():.6f}" for x in losses])


if __name__ == "__main__":
    main()
