"""Implicit Q-learning, one joint update of critic, value and policy (offline RL)."""
import copy
import math
import sys

import torch
import torch.nn as nn
import torch_xla

OBS, ACT = 7, 3


def mlp(i, o, h=12):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, o))


class TwinQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1 = mlp(OBS + ACT, 1)
        self.q2 = mlp(OBS + ACT, 1)

    def both(self, obs, act):
        sa = torch.cat([obs, act], 1)
        return self.q1(sa).squeeze(-1), self.q2(sa).squeeze(-1)

    def forward(self, obs, act):
        return torch.min(*self.both(obs, act))


class GaussianPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(OBS, ACT)
        self.log_std = nn.Parameter(torch.zeros(ACT))

    def log_prob(self, obs, act):
        mean = torch.tanh(self.net(obs))
        log_std = self.log_std.clamp(-5.0, 2.0)
        var = (2 * log_std).exp()
        return (-0.5 * (act - mean) ** 2 / var - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.qf = TwinQ()
        self.vf = mlp(OBS, 1)
        self.policy = GaussianPolicy()


def expectile_loss(diff, tau):
    return (torch.abs(tau - (diff < 0).float()) * diff ** 2).mean()


def update(agent, target, opt, batch, tau=0.7, beta=3.0, discount=0.99, polyak=0.005):
    obs, act, rew, nobs, done = batch
    with torch.no_grad():
        target_q = target(obs, act)
        next_v = agent.vf(nobs).squeeze(-1)

    v = agent.vf(obs).squeeze(-1)
    adv = target_q - v
    v_loss = expectile_loss(adv, tau)

    backup = rew + (1.0 - done) * discount * next_v
    q_loss = sum(((q - backup) ** 2).mean() for q in agent.qf.both(obs, act)) / 2

    weight = torch.exp(beta * adv).clamp(max=100.0)
    pi_loss = -(weight * agent.policy.log_prob(obs, act)).mean()

    opt.zero_grad(set_to_none=True)
    (v_loss + q_loss + pi_loss).backward()
    opt.step()
    with torch.no_grad():
        for p, tp in zip(agent.qf.parameters(), target.parameters()):
            tp.mul_(1 - polyak).add_(p, alpha=polyak)
    return v_loss, q_loss, pi_loss


def live(agent, target, opt, losses):
    ts = [l for l in losses] + list(agent.parameters()) + list(target.parameters())
    for p in agent.parameters():
        ts += [p.grad, opt.state[p]["exp_avg"], opt.state[p]["exp_avg_sq"]]
    return ts


def main(out):
    torch.manual_seed(3)
    device = torch_xla.device()
    agent = Agent()
    target = copy.deepcopy(agent.qf).requires_grad_(False)
    agent.to(device)
    target.to(device)
    opt = torch.optim.Adam(agent.parameters(), lr=3e-4)
    torch_xla.sync()
    for i in range(4):
        batch = [torch.randn(10, OBS), torch.randn(10, ACT).tanh(), torch.randn(10), torch.randn(10, OBS),
                 (torch.rand(10) < 0.1).float()]
        losses = update(agent, target, opt, [b.to(device) for b in batch])
        if i == 2:
            with open(out, "w") as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo(live(agent, target, opt, losses)))
        torch_xla.sync()
        print(i, [l.item() for l in losses])


if __name__ == "__main__":
    main(sys.argv[1])
