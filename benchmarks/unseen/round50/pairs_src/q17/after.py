"""Soft actor-critic for a building heat-pump controller, one update."""
import copy
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

OBS, ACT, HID = 9, 2, 16


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(OBS + ACT, HID)
        self.fc2 = nn.Linear(HID, 1)

    def forward(self, o, a):
        return self.fc2(F.relu(self.fc1(torch.cat([o, a], -1)))).squeeze(-1)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(OBS, HID)
        self.mu = nn.Linear(HID, ACT)
        self.log_std = nn.Linear(HID, ACT)

    def forward(self, o, noise):
        h = F.relu(self.fc1(o))
        mu = self.mu(h)
        ls = -5 + 3.5 * (torch.tanh(self.log_std(h)) + 1)
        u = mu + ls.exp() * noise
        a = torch.tanh(u)
        logp = -0.5 * noise.pow(2) - ls - 0.5 * math.log(2 * math.pi)
        logp = logp - 2 * (math.log(2) - u - F.softplus(-2 * u))
        return a, logp.sum(-1)


class Agent:
    def __init__(self, dev, gamma=0.98, tau=0.01):
        self.actor = Actor().to(dev)
        self.q1, self.q2 = Critic().to(dev), Critic().to(dev)
        self.t1, self.t2 = copy.deepcopy(self.q1), copy.deepcopy(self.q2)
        for p in self.target_params():
            p.requires_grad_(False)
        self.q_opt = torch.optim.SGD(self.q_params(), lr=3e-3)
        self.pi_opt = torch.optim.SGD(self.actor.parameters(), lr=1e-3)
        self.log_alpha = torch.zeros((), device=dev, requires_grad=True)
        self.a_opt = torch.optim.SGD([self.log_alpha], lr=1e-3)
        self.gamma, self.tau = gamma, tau

    def q_params(self):
        return list(self.q1.parameters()) + list(self.q2.parameters())

    def target_params(self):
        return list(self.t1.parameters()) + list(self.t2.parameters())

    def soft_update(self):
        with torch.no_grad():
            for t, p in zip(self.target_params(), self.q_params()):
                t.mul_(1 - self.tau).add_(self.tau * p)

    def update(self, o, a, r, o2, done, n1, n2):
        self.soft_update()
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            a2, lp2 = self.actor(o2, n1)
            tq = torch.minimum(self.t1(o2, a2), self.t2(o2, a2))
            y = r + self.gamma * (1 - done) * (tq - alpha * lp2)
        q_loss = (F.smooth_l1_loss(self.q1(o, a), y)
                  + F.smooth_l1_loss(self.q2(o, a), y))
        self.q_opt.zero_grad(set_to_none=True)
        q_loss.backward()
        self.q_opt.step()

        for p in self.q_params():
            p.requires_grad_(False)
        pa, lp = self.actor(o, n2)
        q = 0.5 * (self.q1(o, pa) + self.q2(o, pa))
        pi_loss = (alpha * lp - q).mean()
        self.pi_opt.zero_grad(set_to_none=True)
        pi_loss.backward()
        self.pi_opt.step()
        for p in self.q_params():
            p.requires_grad_(True)

        a_loss = -(self.log_alpha * (lp.detach() - ACT)).mean()
        self.a_opt.zero_grad(set_to_none=True)
        a_loss.backward()
        self.a_opt.step()

        return q_loss.detach(), pi_loss.detach(), a_loss.detach()


def main(path):
    torch.manual_seed(21)
    dev = xm.xla_device()
    ag = Agent(dev)
    g = torch.Generator().manual_seed(22)
    B = 8
    for step in range(4):
        batch = [torch.randn(B, OBS, generator=g), torch.rand(B, ACT, generator=g) * 2 - 1,
                 torch.randn(B, generator=g), torch.randn(B, OBS, generator=g),
                 (torch.rand(B, generator=g) < 0.1).float(),
                 torch.randn(B, ACT, generator=g), torch.randn(B, ACT, generator=g)]
        batch = [t.to(dev) for t in batch]
        xm.mark_step()
        losses = ag.update(*batch)
        if step == 1:
            params = ag.q_params() + ag.target_params() + list(ag.actor.parameters())
            params.append(ag.log_alpha)
            grads = [p.grad for p in params if p.grad is not None]
            with open(path, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(params + grads + list(losses)))
        xm.mark_step()
        print(step, [round(l.item(), 5) for l in losses])


if __name__ == "__main__":
    main(sys.argv[1])
