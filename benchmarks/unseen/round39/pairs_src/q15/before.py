"""Soft actor-critic update for a greenhouse climate controller (temperature, vents, lamps)."""
import copy
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT, HID, B = 6, 3, 12, 8


def mlp(*sizes):
    layers = []
    for i in range(len(sizes) - 1):
        layers.append(nn.Linear(sizes[i], sizes[i + 1]))
        if i < len(sizes) - 2:
            layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = mlp(OBS, HID, 2 * ACT)

    def forward(self, obs, noise):
        mu, log_std = self.body(obs).chunk(2, -1)
        log_std = -5 + 3.5 * (torch.tanh(log_std) + 1)
        raw = mu + log_std.exp() * noise
        logp = (-0.5 * noise ** 2 - log_std - 0.9189385).sum(-1)
        act = torch.tanh(raw)
        logp = logp - torch.log(1 - act ** 2 + 1e-6).sum(-1)
        return act, logp


class TwinQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1 = mlp(OBS + ACT, HID, 1)
        self.q2 = mlp(OBS + ACT, HID, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], -1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class Agent:
    def __init__(self, dev):
        self.actor = Actor().to(dev)
        self.critic = TwinQ().to(dev)
        self.target = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_alpha = torch.zeros((), device=dev).requires_grad_()
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=1e-3)
        self.alpha_opt = torch.optim.SGD([self.log_alpha], lr=1e-3)
        self.gamma, self.tau = 0.98, 0.02

    @torch.no_grad()
    def soft_update(self):
        for t, p in zip(self.target.parameters(), self.critic.parameters()):
            t.mul_(1 - self.tau).add_(p, alpha=self.tau)

    def update(self, obs, act, rew, nxt, done, n1, n2):
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            next_act, next_logp = self.actor(nxt, n1)
            tq1, tq2 = self.target(nxt, next_act)
            backup = rew + self.gamma * (1 - done) * (torch.min(tq1, tq2) - alpha * next_logp)

        q1, q2 = self.critic(obs, act)
        critic_loss = F.mse_loss(q1, backup) + F.mse_loss(q2, backup)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()

        self.critic.requires_grad_(False)
        pi, logp = self.actor(obs, n2)
        actor_loss = (alpha * logp - torch.min(*self.critic(obs, pi))).mean()
        self.actor_opt.zero_grad()
        actor_loss.backward()
        self.actor_opt.step()
        self.critic.requires_grad_(True)

        alpha_loss = -(self.log_alpha.exp() * (logp.detach() - ACT)).mean()
        self.alpha_opt.zero_grad()
        alpha_loss.backward()
        self.alpha_opt.step()

        self.soft_update()
        return critic_loss.detach(), actor_loss.detach(), alpha_loss.detach()

    def live(self):
        out = [self.log_alpha]
        for p in self.critic.parameters():
            s = self.critic_opt.state[p]
            out += [p, s["exp_avg"], s["exp_avg_sq"]]
        for p in self.actor.parameters():
            s = self.actor_opt.state[p]
            out += [p, s["exp_avg"], s["exp_avg_sq"]]
        return out + list(self.target.parameters())


def main(out):
    torch.manual_seed(0)
    dev = torch_xla.device()
    agent = Agent(dev)
    g = torch.Generator().manual_seed(4)
    for step in range(3):
        obs, nxt = torch.randn(2, B, OBS, generator=g).unbind(0)
        act = torch.rand(B, ACT, generator=g) * 2 - 1
        rew = torch.randn(B, generator=g)
        done = (torch.rand(B, generator=g) < 0.1).float()
        n1, n2 = torch.randn(2, B, ACT, generator=g).unbind(0)
        batch = [x.contiguous().to(dev) for x in (obs, act, rew, nxt, done, n1, n2)]
        losses = agent.update(*batch)
        if step == 2:
            live = list(losses) + agent.live()
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, [x.item() for x in losses])


main(sys.argv[1])
