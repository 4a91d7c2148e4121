"""Recurrent advantage actor-critic on a batch of partially observed inventory problems."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    envs: int = 8
    horizon: int = 6
    obs: int = 5
    actions: int = 4
    hidden: int = 24
    gamma: float = 0.97
    lam: float = 0.9
    value_coef: float = 0.5
    entropy_coef: float = 0.01
    updates: int = 5
    lr: float = 7e-4


class Inventory:
    """Stock, an order in transit, noisy demand. Lives on the host."""

    def __init__(self, cfg, seed):
        self.cfg = cfg
        self.g = torch.Generator().manual_seed(seed)
        self.stock = torch.full((cfg.envs,), 5.0)
        self.transit = torch.zeros(cfg.envs)
        self.rate = 1.0 + 3.0 * torch.rand(cfg.envs, generator=self.g)

    def observe(self):
        seen = self.stock + 0.5 * torch.randn(self.cfg.envs, generator=self.g)
        return torch.stack([seen / 10, self.transit / 5, (seen < 2).float(),
                            (seen > 12).float(), torch.ones_like(seen)], -1)

    def step(self, action):
        demand = torch.poisson(self.rate, generator=self.g)
        self.stock = self.stock + self.transit
        sold = torch.minimum(self.stock, demand)
        self.stock = self.stock - sold
        self.transit = action.float() * 2
        reward = sold - 0.1 * self.stock - 0.3 * (action > 0)
        done = (torch.rand(self.cfg.envs, generator=self.g) < 0.05).float()
        self.stock = torch.where(done > 0, torch.full_like(self.stock, 5.0), self.stock)
        return reward / 5, done


class Agent(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.enc = nn.Linear(cfg.obs, cfg.hidden)
        self.cell = nn.GRUCell(cfg.hidden, cfg.hidden)
        self.pi = nn.Linear(cfg.hidden, cfg.actions)
        self.v = nn.Linear(cfg.hidden, 1)
        nn.init.orthogonal_(self.pi.weight, 0.01)

    def forward(self, obs, h):
        h = self.cell(torch.tanh(self.enc(obs)), h)
        return self.pi(h), self.v(h).squeeze(-1), h


def collect(agent, env, h, cfg, device):
    obs, acts, rews, dones = [], [], [], []
    with torch.no_grad():
        for _ in range(cfg.horizon):
            o = env.observe()
            logits, _, h = agent(o.to(device), h)
            torch_xla.sync()
            a = torch.multinomial(logits.softmax(-1).cpu(), 1, generator=env.g).squeeze(1)
            r, d = env.step(a)
            h = h * (1 - d.to(device))[:, None]
            obs.append(o); acts.append(a); rews.append(r); dones.append(d)
    obs.append(env.observe())
    stack = [torch.stack(v).to(device) for v in (obs, acts, rews, dones)]
    return stack, h


def gae(rewards, values, last_value, dones, cfg):
    out, acc = [], torch.zeros_like(last_value)
    nxt = last_value
    for t in reversed(range(rewards.shape[0])):
        alive = 1.0 - dones[t]
        delta = rewards[t] + cfg.gamma * nxt * alive - values[t]
        acc = delta + cfg.gamma * cfg.lam * alive * acc
        out.append(acc)
        nxt = values[t]
    return torch.stack(out[::-1])


def unroll(agent, obs, dones, h):
    logits, values = [], []
    for o, d in zip(obs.unbind(0), dones.unbind(0)):
        lg, v, h = agent(o, h)
        h = h * (1.0 - d)[:, None]
        logits.append(lg)
        values.append(v)
    return torch.stack(logits), torch.stack(values), h


def update(agent, opt, batch, h0, cfg):
    obs, acts, rews, dones = batch
    logits, values, h = unroll(agent, obs[:-1], dones, h0)
    with torch.no_grad():
        _, last_value, _ = agent(obs[-1], h)
    logp_all = F.log_softmax(logits, -1)
    adv = gae(rews, values, last_value, dones, cfg)
    returns = (adv + values).detach()

    logp = logp_all.gather(-1, acts[..., None]).squeeze(-1)
    entropy = -(logp_all.exp() * logp_all).sum(-1).mean()
    policy_loss = -(logp * adv).mean()
    value_loss = F.smooth_l1_loss(values, returns)
    loss = policy_loss + cfg.value_coef * value_loss - cfg.entropy_coef * entropy
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
    opt.step()
    torch_xla.sync()
    return policy_loss, value_loss, entropy


def main():
    cfg = Config()
    torch.manual_seed(2)
    device = torch_xla.device()
    agent = Agent(cfg).to(device)
    opt = torch.optim.RMSprop(agent.parameters(), lr=cfg.lr, alpha=0.99, eps=1e-5)
    env = Inventory(cfg, seed=5)
    h = torch.zeros(cfg.envs, cfg.hidden, device=device)
    for i in range(cfg.updates):
        h0 = h
        batch, h = collect(agent, env, h, cfg, device)
        torch_xla.sync()
        stats = update(agent, opt, batch, h0, cfg)
        xm.master_print(f"{i} " + " ".join(f"{s.item():.4f}" for s in stats))


if __name__ == "__main__":
    main()
