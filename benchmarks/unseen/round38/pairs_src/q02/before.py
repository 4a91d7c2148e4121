"""Soft actor-critic for a greenhouse climate controller (heating, vents, CO2)."""
import copy
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT, HID = 7, 3, 12
GAMMA, TAU = 0.98, 0.01


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(OBS, HID)
        self.head = nn.Linear(HID, 2 * ACT)

    def forward(self, obs, noise):
        mu, log_std = self.head(F.relu(self.body(obs))).chunk(2, dim=-1)
        log_std = -5 + 0.5 * (2 + 5) * (torch.tanh(log_std) + 1)
        u = mu + noise * log_std.exp()
        logp = (-0.5 * noise ** 2 - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)
        # tanh correction in its stable form
        logp = logp - (2 * (math.log(2) - u - F.softplus(-2 * u))).sum(-1)
        return torch.tanh(u), logp


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(OBS + ACT, HID)
        self.l2 = nn.Linear(HID, 1)

    def forward(self, obs, act):
        return self.l2(F.relu(self.l1(torch.cat([obs, act], dim=-1)))).squeeze(-1)


class Agent:
    def __init__(self, dev):
        torch.manual_seed(11)
        self.actor = Actor().to(dev)
        self.q1, self.q2 = Critic().to(dev), Critic().to(dev)
        self.t1, self.t2 = copy.deepcopy(self.q1), copy.deepcopy(self.q2)
        for p in list(self.t1.parameters()) + list(self.t2.parameters()):
            p.requires_grad_(False)
        self.log_alpha = torch.full((), -1.0, device=dev).requires_grad_()
        self.critic_params = list(self.q1.parameters()) + list(self.q2.parameters())
        self.critic_opt = torch.optim.SGD(self.critic_params, lr=3e-3, momentum=0.9)
        self.actor_opt = torch.optim.SGD(self.actor.parameters(), lr=1e-3, momentum=0.9)
        self.alpha_opt = torch.optim.SGD([self.log_alpha], lr=1e-3)

    @torch.no_grad()
    def update_targets(self):
        for net, target in ((self.q1, self.t1), (self.q2, self.t2)):
            for p, tp in zip(net.parameters(), target.parameters()):
                tp.mul_(1 - TAU).add_(p, alpha=TAU)

    def update(self, obs, act, rew, nobs, done, n1, n2):
        alpha = self.log_alpha.exp().detach()

        # critics
        with torch.no_grad():
            nact, nlogp = self.actor(nobs, n1)
            nq = torch.min(self.t1(nobs, nact), self.t2(nobs, nact))
            y = rew + GAMMA * (1 - done) * (nq - alpha * nlogp)
        q_loss = F.smooth_l1_loss(self.q1(obs, act), y) + F.smooth_l1_loss(self.q2(obs, act), y)
        self.critic_opt.zero_grad()
        q_loss.backward()
        self.critic_opt.step()
        self.update_targets()

        # actor, against the critics just updated
        for p in self.critic_params:
            p.requires_grad_(False)
        pact, logp = self.actor(obs, n2)
        pi_loss = (alpha * logp - torch.min(self.q1(obs, pact), self.q2(obs, pact))).mean()
        self.actor_opt.zero_grad()
        pi_loss.backward()
        self.actor_opt.step()
        for p in self.critic_params:
            p.requires_grad_(True)

        # temperature
        a_loss = -(self.log_alpha.exp() * (logp.detach() - ACT)).mean()
        self.alpha_opt.zero_grad()
        a_loss.backward()
        self.alpha_opt.step()
        return q_loss.detach(), pi_loss.detach(), a_loss.detach()

    def live(self):
        out = []
        for opt, params in ((self.critic_opt, self.critic_params),
                            (self.actor_opt, list(self.actor.parameters()))):
            for p in params:
                out += [p.data, p.grad, opt.state[p]["momentum_buffer"]]
        out += [p.data for p in self.t1.parameters()] + [p.data for p in self.t2.parameters()]
        return out + [self.log_alpha.data, self.log_alpha.grad]


def main(path):
    dev = torch_xla.device()
    agent = Agent(dev)
    torch_xla.sync()
    for step in range(3):
        batch = [torch.randn(10, OBS), torch.rand(10, ACT) * 2 - 1, torch.randn(10),
                 torch.randn(10, OBS), (torch.rand(10) < 0.2).float(),
                 torch.randn(10, ACT), torch.randn(10, ACT)]
        losses = agent.update(*[t.to(dev) for t in batch])
        if step == 1:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(list(losses) + agent.live()))
        torch_xla.sync()
        print(step, [l.item() for l in losses])


if __name__ == "__main__":
    main(sys.argv[1])
