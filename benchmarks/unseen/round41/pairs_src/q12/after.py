"""Soft actor-critic update for a 6-dof valve controller: critics, actor, temperature, polyak."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

OBS, ACT, HID = 9, 3, 12


class TwinQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1 = nn.Sequential(nn.Linear(OBS + ACT, HID), nn.ReLU(), nn.Linear(HID, 1))
        self.q2 = nn.Sequential(nn.Linear(OBS + ACT, HID), nn.ReLU(), nn.Linear(HID, 1))

    def forward(self, obs, act):
        x = torch.cat([obs, act], dim=-1)
        return self.q1(x).squeeze(-1), self.q2(x).squeeze(-1)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, HID), nn.ReLU())
        self.head = nn.Linear(HID, 2 * ACT)

    def forward(self, obs, noise):
        mu, log_std = self.head(self.body(obs)).chunk(2, dim=-1)
        log_std = -5.0 + 3.5 * (torch.tanh(log_std) + 1.0)
        u = mu + log_std.exp() * noise
        a = torch.tanh(u)
        logp = (-0.5 * noise.pow(2) - log_std - 0.9189385).sum(-1)
        logp = logp - (2.0 * (0.6931472 - u - F.softplus(-2.0 * u))).sum(-1)
        return a, logp


class SAC:
    def __init__(self, device, gamma=0.97, tau=0.01, lr=3e-3):
        self.actor, self.critic, self.target = Actor().to(device), TwinQ().to(device), TwinQ().to(device)
        self.target.load_state_dict(self.critic.state_dict())
        self.log_alpha = torch.zeros((), device=device, requires_grad=True)
        self.gamma, self.tau, self.target_entropy = gamma, tau, -float(ACT)
        self.opt_c = torch.optim.SGD(self.critic.parameters(), lr=lr, momentum=0.9)
        self.opt_a = torch.optim.SGD(self.actor.parameters(), lr=lr, momentum=0.9)
        self.opt_t = torch.optim.SGD([self.log_alpha], lr=lr)

    def update(self, obs, act, rew, nxt, done, eps_next, eps_cur):
        # critics
        with torch.no_grad():
            a2, logp2 = self.actor(nxt, eps_next)
            t1, t2 = self.target(nxt, a2)
            v2 = torch.min(t1, t2) - self.log_alpha.exp() * logp2
            y = rew + self.gamma * (1.0 - done) * v2
            for tp, p in zip(self.target.parameters(), self.critic.parameters()):
                tp.mul_(1.0 - self.tau).add_(p, alpha=self.tau)
        q1, q2 = self.critic(obs, act)
        loss_c = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        self.opt_c.zero_grad()
        loss_c.backward()
        self.opt_c.step()

        # actor
        for p in self.critic.parameters():
            p.requires_grad_(False)
        a, logp = self.actor(obs, eps_cur)
        p1, p2 = self.critic(obs, a)
        loss_a = (self.log_alpha.exp().detach() * logp - torch.min(p1, p2)).mean()
        self.opt_a.zero_grad()
        loss_a.backward()
        self.opt_a.step()
        for p in self.critic.parameters():
            p.requires_grad_(True)

        # temperature
        loss_t = -(self.log_alpha.exp() * (logp.detach() + self.target_entropy)).mean()
        self.opt_t.zero_grad()
        loss_t.backward()
        self.opt_t.step()
        return loss_c.detach(), loss_a.detach(), loss_t.detach()

    def live(self):
        out = []
        for net in (self.actor, self.critic, self.target):
            out += list(net.parameters())
        out.append(self.log_alpha)
        for opt in (self.opt_c, self.opt_a):
            out += [opt.state[p]["momentum_buffer"] for g in opt.param_groups for p in g["params"]]
        return out


def sample(gen, n=16):
    r = lambda *s: torch.randn(*s, generator=gen)
    batch = (r(n, OBS), torch.tanh(r(n, ACT)), r(n), r(n, OBS), (r(n) > 1.2).float(), r(n, ACT), r(n, ACT))
    return [t.to("xla") for t in batch]


def main(path):
    torch.manual_seed(3)
    gen = torch.Generator().manual_seed(4)
    agent = SAC("xla")
    for step in range(4):
        batch = sample(gen)
        torch_xla.sync()
        losses = agent.update(*batch)
        if step == 3:
            live = list(losses) + agent.live()
            open(path, "w").write(torch_xla._XLAC._get_xla_tensors_hlo(live))
        torch_xla.sync()
        print(step, *(round(l.item(), 5) for l in losses))


if __name__ == "__main__":
    main(sys.argv[1])
