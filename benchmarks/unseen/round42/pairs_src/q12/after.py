"""Soft actor-critic for a small continuous-control task (pendulum-like), twin Q."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS, ACT, HID, B = 5, 2, 16, 8
GAMMA, TAU = 0.98, 0.01
LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, HID), nn.ELU(), nn.Linear(HID, o))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(OBS, 2 * ACT)

    def forward(self, obs, noise):
        mu, log_std = self.net(obs).chunk(2, dim=-1)
        log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (torch.tanh(log_std) + 1)
        u = mu + log_std.exp() * noise
        logp = (-0.5 * noise.pow(2) - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)
        logp = logp - (2 * (math.log(2) - u - F.softplus(-2 * u))).sum(-1)
        return torch.tanh(u), logp


class TwinQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1 = mlp(OBS + ACT, 1)
        self.q2 = mlp(OBS + ACT, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class Agent:
    def __init__(self, dev):
        self.dev = dev
        self.actor = Actor().to(dev)
        self.critic = TwinQ().to(dev)
        self.target = TwinQ().to(dev)
        self.target.load_state_dict(self.critic.state_dict())
        self.target.requires_grad_(False)
        self.log_alpha = torch.full((1,), -1.0, device=dev, requires_grad=True)
        self.opt_pi = torch.optim.RMSprop(self.actor.parameters(), lr=3e-4)
        self.opt_q = torch.optim.RMSprop(self.critic.parameters(), lr=1e-3)
        self.opt_alpha = torch.optim.SGD([self.log_alpha], lr=1e-3)
        self.target_entropy = -float(ACT)

    def update(self, batch):
        obs, act, rew, nxt, done, eps_next, eps_now = batch
        alpha = self.log_alpha.exp().detach()

        # critic
        with torch.no_grad():
            a2, logp2 = self.actor(nxt, eps_next)
            t1, t2 = self.target(nxt, a2)
            soft_v = torch.minimum(t1, t2) - alpha * logp2
            y = rew + GAMMA * (1.0 - done) * soft_v
        q1, q2 = self.critic(obs, act)
        q_loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        self.opt_q.zero_grad()
        q_loss.backward()
        self.opt_q.step()

        # actor
        a, logp = self.actor(obs, eps_now)
        for p in self.critic.parameters():
            p.requires_grad_(False)
        q_pi = torch.minimum(*self.target(obs, a))
        pi_loss = (alpha * logp - q_pi).mean()
        self.opt_pi.zero_grad()
        pi_loss.backward()
        self.opt_pi.step()
        for p in self.critic.parameters():
            p.requires_grad_(True)

        # temperature
        alpha_loss = -(self.log_alpha.exp() * (logp.detach() + self.target_entropy)).mean()
        self.opt_alpha.zero_grad()
        alpha_loss.backward()
        self.opt_alpha.step()

        # target network
        with torch.no_grad():
            for p, tp in zip(self.critic.parameters(), self.target.parameters()):
                tp.lerp_(p, TAU)
        return q_loss.detach(), pi_loss.detach(), alpha_loss.detach()

    def pending(self):
        out = [self.log_alpha, self.log_alpha.grad]
        for mod, opt in ((self.actor, self.opt_pi), (self.critic, self.opt_q)):
            for p in mod.parameters():
                out += [p, p.grad, opt.state[p]["square_avg"]]
        return out + list(self.target.parameters())


def sample(gen, dev):
    n = lambda *s: torch.randn(*s, generator=gen)
    done = (torch.rand(B, generator=gen) < 0.1).float()
    cols = [n(B, OBS), torch.tanh(n(B, ACT)), n(B), n(B, OBS), done, n(B, ACT), n(B, ACT)]
    return [c.to(dev) for c in cols]


def main(path, steps=3):
    dev = torch_xla.device()
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(4)
    agent = Agent(dev)
    torch_xla.sync()
    for step in range(steps):
        losses = agent.update(sample(gen, dev))
        if step == steps - 1:
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(list(losses) + agent.pending()))
        torch_xla.sync()
        print(step, [round(l.item(), 5) for l in losses])


if __name__ == "__main__":
    main(sys.argv[1])
