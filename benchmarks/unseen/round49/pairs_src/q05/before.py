"""Quantile-regression DQN with dueling streams, double-Q selection and a Polyak target."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

OBS, ACTIONS, QUANTS = 9, 4, 7
GAMMA, TAU = 0.97, 0.01


class QuantileNet(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, hidden), nn.LayerNorm(hidden), nn.SiLU())
        self.value = nn.Linear(hidden, QUANTS)
        self.adv = nn.Linear(hidden, ACTIONS * QUANTS)

    def forward(self, obs):
        h = self.body(obs)
        v = self.value(h).unsqueeze(1)
        a = self.adv(h).view(-1, ACTIONS, QUANTS)
        return v + a - a.mean(dim=1, keepdim=True)


def pick(quantiles, action):
    idx = action.view(-1, 1, 1).expand(-1, 1, QUANTS)
    return quantiles.gather(1, idx).squeeze(1)


def quantile_huber(pred, target, weight, kappa=1.0):
    """pred [B, N] quantiles of the critic, target [B, M] samples of the return."""
    td = target.unsqueeze(1) - pred.unsqueeze(2)                 # [B, N, M]
    mid = (torch.arange(QUANTS, device=pred.device, dtype=torch.float32) + 0.5) / QUANTS
    huber = torch.where(td.abs() <= kappa, 0.5 * td.pow(2), kappa * (td.abs() - 0.5 * kappa))
    rho = (mid.view(1, -1, 1) - (td.detach() < 0).float()).abs() * huber / kappa
    per_sample = rho.mean(dim=2).sum(dim=1)
    return (weight * per_sample).mean(), per_sample


class Agent:
    def __init__(self, dev):
        self.online = QuantileNet().to(dev)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.opt = torch.optim.Adam(self.online.parameters(), lr=3e-4, eps=1.5e-4)

    def learn(self, obs, action, reward, done, next_obs, weight):
        with torch.no_grad():
            best = self.online(next_obs).mean(dim=2).argmax(dim=1)
            nxt = pick(self.target(next_obs), best)
            target = reward.unsqueeze(1) + GAMMA * (1 - done).unsqueeze(1) * nxt
        pred = pick(self.online(obs), action)
        loss, prio = quantile_huber(pred, target, weight)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_value_(self.online.parameters(), 1.0)
        self.opt.step()
        with torch.no_grad():
            for t, p in zip(self.target.parameters(), self.online.parameters()):
                t.lerp_(p, TAU)
        return loss, prio.detach()

    def live(self):
        out = []
        for t, p in zip(self.target.parameters(), self.online.parameters()):
            s = self.opt.state[p]
            out += [p, p.grad, s['exp_avg'], s['exp_avg_sq'], t]
        return out


def main(path, dump_at=2):
    torch.manual_seed(31)
    dev = xm.xla_device()
    agent = Agent(dev)
    g = torch.Generator().manual_seed(8)
    for step in range(dump_at + 1):
        b = 16
        batch = [torch.randn(b, OBS, generator=g), torch.randint(0, ACTIONS, (b,), generator=g),
                 torch.randn(b, generator=g), (torch.rand(b, generator=g) < 0.1).float(),
                 torch.randn(b, OBS, generator=g), torch.rand(b, generator=g)]
        loss, prio = agent.learn(*[t.to(dev) for t in batch])
        if step == dump_at:
            with open(path, 'w') as f:
                f.write(torch_xla._XLAC._get_xla_tensors_hlo([loss, prio] + agent.live()))
        xm.mark_step()
        print(step, loss.item())


if __name__ == '__main__':
    main(sys.argv[1])
