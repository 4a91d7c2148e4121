"""Recurrent PPO for a small inventory-control environment (orders are discrete, demand is hidden)."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class PPOConfig:
    n_envs: int = 6
    horizon: int = 3
    obs_dim: int = 7
    n_actions: int = 4
    hidden: int = 16
    gamma: float = 0.97
    lam: float = 0.9
    clip: float = 0.1
    vf_coef: float = 0.5
    ent_coef: float = 0.01
    lr: float = 2e-3
    epochs: int = 3


class ActorCritic(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(c.obs_dim, c.hidden), nn.Tanh())
        self.cell = nn.GRUCell(c.hidden, c.hidden)
        self.pi = nn.Linear(c.hidden, c.n_actions)
        self.v = nn.Linear(c.hidden, 1)

    def step(self, obs, h):
        h = self.cell(self.enc(obs), h)
        return self.pi(h), self.v(h).squeeze(-1), h

    def unroll(self, obs, h, reset):
        logits, values = [], []
        for t in range(obs.shape[0]):
            h = h * (1.0 - reset[t]).unsqueeze(-1)
            lg, v, h = self.step(obs[t], h)
            logits.append(lg)
            values.append(v)
        return torch.stack(logits), torch.stack(values)


class Warehouse:
    def __init__(self, c, device):
        self.c, self.device = c, device
        self.g = torch.Generator().manual_seed(17)

    def rollout(self):
        c = self.c
        r = lambda *s: torch.randn(*s, generator=self.g)
        obs = r(c.horizon, c.n_envs, c.obs_dim)
        reset = (torch.rand(c.horizon, c.n_envs, generator=self.g) < 0.1).float()
        act = torch.randint(0, c.n_actions, (c.horizon, c.n_envs), generator=self.g)
        rew = obs[..., 0] - 0.3 * act.float()
        return [t.to(self.device) for t in (obs, reset, act, rew)]


def gae(rew, val, reset, last, c):
    adv, run = [], torch.zeros_like(last)
    for t in reversed(range(rew.shape[0])):
        nxt = last if t == rew.shape[0] - 1 else val[t + 1]
        alive = 1.0 if t == rew.shape[0] - 1 else 1.0 - reset[t + 1]
        run = rew[t] + c.gamma * nxt * alive - val[t] + c.gamma * c.lam * alive * run
        adv.append(run)
    return torch.stack(adv[::-1])


def ppo_loss(model, batch, c):
    obs, reset, act, old_logp, old_val, adv, ret, h0 = batch
    logits, val = model.unroll(obs, h0, reset)
    logp_all = torch.log_softmax(logits, -1)
    logp = logp_all.gather(-1, act.unsqueeze(-1)).squeeze(-1)
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)

    ratio = (logp - old_logp).exp()
    pg = -torch.min(ratio * adv, ratio.clamp(1 - c.clip, 1 + c.clip) * adv).mean()

    v_clip = old_val + (val - old_val).clamp(-c.clip, c.clip)
    vf = 0.5 * torch.max((val - ret) ** 2, (v_clip - ret) ** 2).mean()

    ent = -(logp_all.exp() * logp_all).sum(-1).mean()
    return pg + c.vf_coef * vf - c.ent_coef * ent


def main():
    c = PPOConfig()
    torch.manual_seed(4)
    device = xm.xla_device()
    model = ActorCritic(c).to(device)
    opt = torch.optim.RMSprop(model.parameters(), lr=c.lr, eps=1e-5)
    env = Warehouse(c, device)
    torch_xla.sync()
    for it in range(2):
        obs, reset, act, rew = env.rollout()
        h0 = torch.zeros(c.n_envs, c.hidden, device=device)
        with torch.no_grad():
            logits, val = model.unroll(obs, h0, reset)
            old_logp = torch.log_softmax(logits, -1).gather(-1, act.unsqueeze(-1)).squeeze(-1)
            adv = gae(rew, val, reset, val[-1], c)
            ret = adv + val
        batch = (obs, reset, act, old_logp, val, adv, ret, h0)
        torch_xla.sync()
        losses = []
        for _ in range(c.epochs):
            opt.zero_grad()
            loss = ppo_loss(model, batch, c)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            opt.step()
            losses.append(loss.detach())
            torch_xla.sync()
        print(it, [round(l.item(), 5) for l in losses])


if __name__ == "__main__":
    main()
