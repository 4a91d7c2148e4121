"""Chiller-plant set-point control with TD3 (twin critics, delayed targets)."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT, HID, BATCH = 9, 3, 12, 8
GAMMA, TAU, NOISE, NOISE_CLIP = 0.98, 0.01, 0.2, 0.5


def mlp(n_in, n_out):
    return nn.Sequential(nn.Linear(n_in, HID), nn.ELU(), nn.Linear(HID, n_out))


class Actor(nn.Module):

    def __init__(self):
        super().__init__()
        self.net = mlp(OBS, ACT)

    def forward(self, obs):
        return torch.tanh(self.net(obs))


class TwinCritic(nn.Module):

    def __init__(self):
        super().__init__()
        self.q1 = mlp(OBS + ACT, 1)
        self.q2 = mlp(OBS + ACT, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class TD3:

    def __init__(self, device):
        self.actor = Actor().to(device)
        self.critic = TwinCritic().to(device)
        self.actor_target = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    @torch.no_grad()
    def soft_update(self, target, source):
        for t, s in zip(target.parameters(), source.parameters()):
            t.lerp_(s, TAU)

    @torch.no_grad()
    def td_target(self, nxt, rew, done, noise):
        act = self.actor_target(nxt) + (noise * NOISE).clamp(-NOISE_CLIP, NOISE_CLIP)
        q1, q2 = self.critic_target(nxt, act.clamp(-1.0, 1.0))
        return rew + GAMMA * (1.0 - done) * torch.minimum(q1, q2)

    def update_critic(self, obs, act, rew, nxt, done, noise):
        target = self.td_target(nxt, rew, done, noise)
        q1, q2 = self.critic(obs, act)
        loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        self.critic_opt.zero_grad()
        loss.backward()
        self.soft_update(self.critic_target, self.critic)
        self.critic_opt.step()
        return loss

    def update_actor(self, obs):
        self.critic.requires_grad_(False)
        loss = -self.critic(obs, self.actor(obs))[0].mean()
        self.actor_opt.zero_grad()
        loss.backward()
        self.actor_opt.step()
        self.critic.requires_grad_(True)
        return loss

    def update(self, obs, act, rew, nxt, done, noise):
        critic_loss = self.update_critic(obs, act, rew, nxt, done, noise)
        actor_loss = self.update_actor(obs)
        self.soft_update(self.actor_target, self.actor)
        return critic_loss, actor_loss

    def live(self):
        nets = [self.actor, self.critic, self.actor_target, self.critic_target]
        out = [p for net in nets for p in net.parameters()]
        out += [p.grad for p in out if p.grad is not None]
        for opt in (self.actor_opt, self.critic_opt):
            for p in opt.param_groups[0]["params"]:
                out += [opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
        return out


def replay(gen, device):
    obs = torch.randn(BATCH, OBS, generator=gen)
    act = torch.rand(BATCH, ACT, generator=gen) * 2 - 1
    rew = torch.randn(BATCH, generator=gen)
    nxt = torch.randn(BATCH, OBS, generator=gen)
    done = (torch.rand(BATCH, generator=gen) < 0.1).float()
    noise = torch.randn(BATCH, ACT, generator=gen)
    return [t.to(device) for t in (obs, act, rew, nxt, done, noise)]


def main(dump=None):
    torch.manual_seed(5)
    agent = TD3(torch_xla.device())
    gen = torch.Generator().manual_seed(1)
    torch_xla.sync()
    for step in range(4):
        critic_loss, actor_loss = agent.update(*replay(gen, torch_xla.device()))
        if dump and step == 2:
            live = [critic_loss, actor_loss] + agent.live()
            with open(dump, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, critic_loss.item(), actor_loss.item())


if __name__ == "__main__":
    main(*sys.argv[1:])
