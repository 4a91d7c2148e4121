"""Soft actor-critic for a building's heat pump (12 sensors, 3 actuators), torch_xla."""
import math
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT, HID, BATCH = 12, 3, 32, 16
GAMMA, TAU = 0.97, 0.01
LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0


def mlp(i, o, depth):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(i, HID), nn.SiLU()]
        i = HID
    return nn.Sequential(*layers, nn.Linear(HID, o))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(OBS, 2 * ACT, 2)

    def forward(self, obs):
        mean, log_std = self.net(obs).chunk(2, dim=-1)
        log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (torch.tanh(log_std) + 1)
        noise = torch.randn_like(mean)
        raw = mean + log_std.exp() * noise
        logp = (-0.5 * noise.pow(2) - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)
        # change of variables for tanh, stable form
        logp = logp - (2 * (math.log(2) - raw - F.softplus(-2 * raw))).sum(-1)
        return torch.tanh(raw), logp


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1 = mlp(OBS + ACT, 1, 1)
        self.q2 = mlp(OBS + ACT, 1, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], -1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class Agent:
    def __init__(self, dev):
        self.actor = Actor().to(dev)
        self.critic = Critic().to(dev)
        self.target = Critic().to(dev)
        self.target.load_state_dict(self.critic.state_dict())
        self.target.requires_grad_(False)
        self.log_alpha = nn.Parameter(torch.tensor(-0.7, device=dev))
        self.target_entropy = -float(ACT)
        self.opt_actor = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.opt_critic = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.opt_alpha = torch.optim.SGD([self.log_alpha], lr=1e-3)

    def update(self, obs, act, rew, nxt, done):
        # critics
        with torch.no_grad():
            nact, nlogp = self.actor(nxt)
            tq = torch.min(*self.target(nxt, nact)) - self.log_alpha.exp() * nlogp
            y = rew + GAMMA * (1 - done) * tq
        q1, q2 = self.critic(obs, act)
        critic_loss = F.smooth_l1_loss(q1, y) + F.smooth_l1_loss(q2, y)
        self.opt_critic.zero_grad()
        critic_loss.backward()
        self.opt_critic.step()

        # actor and temperature, one backward
        self.critic.requires_grad_(False)
        pi, logp = self.actor(obs)
        q = torch.min(*self.critic(obs, pi))
        alpha = self.log_alpha.exp().detach()
        actor_loss = (alpha * logp - q).mean()
        alpha_loss = -(self.log_alpha * (logp.detach() + self.target_entropy)).mean()
        self.opt_actor.zero_grad()
        self.opt_alpha.zero_grad()
        (actor_loss + alpha_loss).backward()
        self.opt_actor.step()
        self.opt_alpha.step()
        self.critic.requires_grad_(True)

        # slow copy
        with torch.no_grad():
            for t, s in zip(self.target.parameters(), self.critic.parameters()):
                t.lerp_(s, TAU)
        return critic_loss.detach(), actor_loss.detach(), alpha_loss.detach()

    def live(self):
        out = []
        for m in (self.actor, self.critic, self.target):
            out += list(m.parameters())
        out.append(self.log_alpha)
        out += [p.grad for p in out if p.grad is not None]
        for opt in (self.opt_actor, self.opt_critic, self.opt_alpha):
            for p in opt.param_groups[0]["params"]:
                out += [v for k, v in sorted(opt.state[p].items()) if torch.is_tensor(v) and v.device.type == "xla"]
        return out


def main(path):
    torch.manual_seed(3)
    dev = torch_xla.device()
    agent = Agent(dev)
    torch_xla.sync()
    gen = torch.Generator().manual_seed(5)
    for step in range(4):
        obs, nxt = (torch.randn(BATCH, OBS, generator=gen).to(dev) for _ in range(2))
        act = torch.rand(BATCH, ACT, generator=gen).mul(2).sub(1).to(dev)
        rew = torch.randn(BATCH, generator=gen).to(dev)
        done = (torch.rand(BATCH, generator=gen) < 0.1).float().to(dev)
        losses = agent.update(obs, act, rew, nxt, done)
        if step == 3:
            text = torch_xla._XLAC._get_xla_tensors_hlo(agent.live() + list(losses))
            with open(path, "w") as f:
                f.write(text)
        torch_xla.sync()
        print(step, [round(l.item(), 5) for l in losses])


if __name__ == "__main__":
    main(sys.argv[1])
