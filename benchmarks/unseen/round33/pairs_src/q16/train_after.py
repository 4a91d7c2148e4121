"""PPO for a vectorised point-mass task; advantages are computed on the device."""
import math
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn as nn
from torch.distributions import Normal
import torch_xla
import torch_xla.core.xla_model as xm

cfg = SimpleNamespace(
    envs=4, horizon=8, obs=6, act=2, hidden=16,
    gamma=0.99, lam=0.95, clip=0.2, vf_coef=0.5, ent_coef=0.01,
    max_grad_norm=0.5, lr=3e-4, critic_lr=3e-4, iterations=3, epochs=1,
)


class PointMass:
    """Synthetic vector env: obs is position, velocity and goal."""

    def __init__(self, n, seed=0):
        self.rng = np.random.default_rng(seed)
        self.n = n
        self.state = self.rng.normal(size=(n, cfg.obs)).astype(np.float32)

    def step(self, action):
        self.state[:, 2:4] += 0.1 * action
        self.state[:, :2] += 0.1 * self.state[:, 2:4]
        dist = np.linalg.norm(self.state[:, :2] - self.state[:, 4:], axis=1)
        done = self.rng.random(self.n) < 0.1
        self.state[done] = self.rng.normal(size=(done.sum(), cfg.obs))
        return self.state.copy(), -dist.astype(np.float32), done.astype(np.float32)


def mlp(i, o, gain):
    net = nn.Sequential(nn.Linear(i, cfg.hidden), nn.Tanh(),
                        nn.Linear(cfg.hidden, cfg.hidden), nn.Tanh(),
                        nn.Linear(cfg.hidden, o))
    nn.init.orthogonal_(net[-1].weight, gain)
    return net


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = mlp(cfg.obs, cfg.act, 0.01)
        self.log_std = nn.Parameter(torch.full((cfg.act,), -0.5))
        self.critic = mlp(cfg.obs, 1, 1.0)

    def dist(self, obs):
        return Normal(self.actor(obs), self.log_std.exp().expand(*obs.shape[:-1], cfg.act),
                      validate_args=False)

    def value(self, obs):
        return self.critic(obs).squeeze(-1)


def make_optimizer(agent):
    groups = [
        {"params": [*agent.actor.parameters(), agent.log_std], "lr": cfg.lr},
        {"params": list(agent.critic.parameters()), "lr": cfg.critic_lr},
    ]
    return torch.optim.Adam(groups, eps=1e-5)


def collect(env, actor_cpu, obs, done):
    buf = {k: [] for k in ("obs", "act", "logp", "rew", "done")}
    for _ in range(cfg.horizon):
        with torch.no_grad():
            d = actor_cpu.dist(torch.from_numpy(obs))
            a = d.sample()
        buf["obs"].append(torch.from_numpy(obs))
        buf["done"].append(torch.from_numpy(done))
        buf["act"].append(a)
        buf["logp"].append(d.log_prob(a).sum(-1))
        obs, rew, done = env.step(a.numpy())
        buf["rew"].append(torch.from_numpy(rew))
    return {k: torch.stack(v) for k, v in buf.items()}, obs, done


@torch.no_grad()
def gae(agent, roll, next_obs, next_done):
    values = agent.value(roll["obs"])
    next_value = agent.value(next_obs)
    bootstrap = torch.cat([values, next_value.unsqueeze(0)])
    alive_mask = 1.0 - torch.cat([roll["done"], next_done.unsqueeze(0)])
    adv = torch.zeros_like(roll["rew"])
    last = torch.zeros_like(next_value)
    for t in reversed(range(cfg.horizon)):
        alive, v_next = alive_mask[t], bootstrap[t + 1]
        delta = roll["rew"][t] + cfg.gamma * v_next * alive - values[t]
        last = delta + cfg.gamma * cfg.lam * alive * last
        adv[t] = last
    return adv, adv + values, values


def ppo_loss(agent, roll, adv, ret, old_values):
    dist = agent.dist(roll["obs"])
    logp = dist.log_prob(roll["act"]).sum(-1)
    ratio = (logp - roll["logp"]).exp()
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    pg = torch.max(-adv * ratio, -adv * ratio.clamp(1 - cfg.clip, 1 + cfg.clip)).mean()
    v = agent.value(roll["obs"])
    v_clip = old_values + (v - old_values).clamp(-cfg.clip, cfg.clip)
    vf = 0.5 * torch.max((v - ret) ** 2, (v_clip - ret) ** 2).mean()
    ent = dist.entropy().sum(-1).mean()
    return pg + cfg.vf_coef * vf - cfg.ent_coef * ent


def main():
    torch.manual_seed(0)
    device = xm.xla_device()
    env = PointMass(cfg.envs)
    agent, actor_cpu = Agent(), Agent()
    actor_cpu.load_state_dict(agent.state_dict())
    agent.to(device)
    opt = make_optimizer(agent)
    obs, done = env.state.copy(), np.zeros(cfg.envs, np.float32)
    for it in range(cfg.iterations):
        roll, obs, done = collect(env, actor_cpu, obs, done)
        roll = {k: v.to(device) for k, v in roll.items()}
        next_obs, next_done = torch.from_numpy(obs).to(device), torch.from_numpy(done).to(device)
        adv, ret, old_values = gae(agent, roll, next_obs, next_done)
        for _ in range(cfg.epochs):
            loss = ppo_loss(agent, roll, adv, ret, old_values)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(opt.param_groups[0]["params"], cfg.max_grad_norm)
            opt.step()
            xm.mark_step()
        actor_cpu.load_state_dict({k: v.cpu() for k, v in agent.state_dict().items()})
        print(it, loss.item(), roll["rew"].mean().item())


if __name__ == "__main__":
    main()
