"""TD3 for a greenhouse climate controller (heating, vents, lamps); one update of the delayed kind."""
import argparse
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch_xla import _XLAC


class Policy(nn.Module):
    def __init__(self, obs, act, hidden=16):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, hidden), nn.ReLU(), nn.Linear(hidden, act))

    def forward(self, o):
        return torch.tanh(self.body(o))


class Critic(nn.Module):
    def __init__(self, obs, act, hidden=16):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs + act, hidden), nn.LayerNorm(hidden),
                                  nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, o, a):
        return self.body(torch.cat([o, a], dim=1)).squeeze(1)


class TD3:
    def __init__(self, obs=7, act=3, device="cpu", gamma=0.98, tau=0.01,
                 noise=0.2, clip=0.5, policy_delay=2):
        online = [Policy(obs, act), Critic(obs, act), Critic(obs, act)]
        target = copy.deepcopy(online)
        self.pi, self.q1, self.q2 = [m.to(device) for m in online]
        self.pi_t, self.q1_t, self.q2_t = [m.to(device).requires_grad_(False) for m in target]
        self.pi_opt = torch.optim.Adam(self.pi.parameters(), lr=3e-4)
        self.q_opt = torch.optim.Adam([*self.q1.parameters(), *self.q2.parameters()], lr=1e-3)
        self.gamma, self.tau, self.noise, self.clip = gamma, tau, noise, clip
        self.policy_delay = policy_delay
        self.updates = 0

    def pairs(self):
        return [(self.pi, self.pi_t), (self.q1, self.q1_t), (self.q2, self.q2_t)]

    @torch.no_grad()
    def polyak(self):
        for online, target in self.pairs():
            for p, pt in zip(online.parameters(), target.parameters()):
                pt.lerp_(p, self.tau)

    def critic_loss(self, o, a, r, o2, done, eps):
        with torch.no_grad():
            a2 = self.pi_t(o2) + (eps * self.noise).clamp(-self.clip, self.clip)
            a2 = a2.clamp(-1, 1)
            q = torch.minimum(self.q1_t(o2, a2), self.q2_t(o2, a2))
            backup = r + self.gamma * (1 - done) * q
        return (F.smooth_l1_loss(self.q1(o, a), backup)
                + F.smooth_l1_loss(self.q2(o, a), backup))

    def update(self, o, a, r, o2, done, eps):
        self.updates += 1
        q_loss = self.critic_loss(o, a, r, o2, done, eps)
        self.q_opt.zero_grad()
        q_loss.backward()
        self.q_opt.step()

        if self.updates % self.policy_delay:
            return q_loss.detach(), None

        self.polyak()
        self.q1.requires_grad_(False)
        pi_loss = -self.q1(o, self.pi(o)).mean()
        self.pi_opt.zero_grad()
        pi_loss.backward()
        self.pi_opt.step()
        self.q1.requires_grad_(True)
        return q_loss.detach(), pi_loss.detach()


def replay(gen, device, n=16, obs=7, act=3):
    o = torch.randn(n, obs, generator=gen)
    a = torch.rand(n, act, generator=gen) * 2 - 1
    o2 = 0.9 * o + 0.1 * torch.randn(n, obs, generator=gen)
    r = -(o2[:, :2] ** 2).sum(1) - 0.05 * a.abs().sum(1)
    done = (torch.rand(n, generator=gen) < 0.05).float()
    eps = torch.randn(n, act, generator=gen)
    return [v.to(device) for v in (o, a, r, o2, done, eps)]


def pending(agent, *extra):
    out = [e for e in extra if e is not None]
    for opt in (agent.pi_opt, agent.q_opt):
        for p in opt.param_groups[0]["params"]:
            out.append(p)
            if p.grad is not None:
                out.append(p.grad)
            out += [v for _, v in sorted(opt.state[p].items()) if v.device.type == "xla"]
    for _, target in agent.pairs():
        out.extend(target.parameters())
    return out


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--dump")
    ap.add_argument("--steps", type=int, default=4)
    args = ap.parse_args()

    torch.manual_seed(31)
    device = torch_xla.device()
    agent = TD3(device=device)
    gen = torch.Generator().manual_seed(32)
    torch_xla.sync()
    for i in range(args.steps):
        losses = agent.update(*replay(gen, device))
        if args.dump and i == args.steps - 1:
            with open(args.dump, "w") as f:
                f.write(_XLAC._get_xla_tensors_hlo(pending(agent, *losses)))
        torch_xla.sync()
        print(i, *[l.item() for l in losses if l is not None])


if __name__ == "__main__":
    main()
