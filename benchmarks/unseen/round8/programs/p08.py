"""PPO with a Gaussian policy on a batch of point-mass environments."""
import logging
from collections import deque
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("ppo")


@dataclass
class PPOConfig:
    seed: int = 31
    envs: int = 8
    horizon: int = 10
    iterations: int = 10
    minibatch: int = 32
    gamma: float = 0.96
    clip: float = 0.22
    entropy: float = 0.003
    lr: float = 3e-3
    scale_window: int = 6


class PointMass:
    """Reach the origin; the reward is minus the distance."""

    def __init__(self, n, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.n = n
        self.reset()

    def reset(self):
        self.pos = torch.randn(self.n, 2, generator=self.g)
        self.vel = torch.zeros(self.n, 2)
        return self.obs()

    def obs(self):
        return torch.cat([self.pos, self.vel], -1)

    def step(self, action):
        self.vel = 0.8 * self.vel + 0.2 * action.clamp(-1, 1)
        self.pos = self.pos + self.vel
        return self.obs(), -self.pos.norm(dim=-1)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.mean, self.value = nn.Linear(32, 2), nn.Linear(32, 1)
        self.log_std = nn.Parameter(torch.full((2,), -0.5))

    def forward(self, obs):
        h = self.body(obs)
        return self.mean(h), self.value(h).squeeze(-1)

    def log_prob(self, mean, action):
        z = (action - mean) * torch.exp(-self.log_std)
        return (-0.5 * z * z - self.log_std - 0.919).sum(-1)


class ReturnScaler:
    """Divides rewards by the spread of the last few rollouts."""

    def __init__(self, window):
        self.recent = deque(maxlen=window)

    def __call__(self, rewards):
        self.recent.append(rewards.pow(2).mean())
        spread = torch.stack(list(self.recent)).mean().sqrt()
        return rewards / (spread + 1e-4)


@torch.no_grad()
def rollout(model, env, cfg, device):
    obs, buf = env.reset(), {"obs": [], "act": [], "logp": [], "rew": []}
    for _ in range(cfg.horizon):
        o = obs.to(device)
        mean, _ = model(o)
        act = mean + torch.randn_like(mean) * model.log_std.exp()
        logp = model.log_prob(mean, act)
        torch_xla.sync()
        buf["obs"].append(obs)
        buf["act"].append(act.cpu())
        buf["logp"].append(logp.cpu())
        obs, rew = env.step(buf["act"][-1])
        buf["rew"].append(rew)
    return {k: torch.stack(v) for k, v in buf.items()}


def discounted(rewards, gamma):
    out, acc = [], torch.zeros_like(rewards[0])
    for r in reversed(rewards.unbind(0)):
        acc = r + gamma * acc
        out.append(acc)
    return torch.stack(out[::-1])


def ppo_loss(model, obs, act, old, ret, cfg):
    mean, value = model(obs)
    ratio = torch.exp(model.log_prob(mean, act) - old)
    adv = ret - value.detach()
    clipped = torch.clamp(ratio, 1 - cfg.clip, 1 + cfg.clip)
    policy = -torch.min(ratio * adv, clipped * adv).mean()
    return policy + 0.4 * F.mse_loss(value, ret) - cfg.entropy * model.log_std.sum()


def update(model, opt, flat, cfg, device):
    count = flat["obs"].shape[0]
    order = torch.randperm(count)
    for start in range(0, count, cfg.minibatch):
        pick = order[start:start + cfg.minibatch]
        obs, act, old, ret = (flat[k][pick].to(device) for k in ("obs", "act", "logp", "ret"))
        loss = ppo_loss(model, obs, act, old, ret, cfg)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
    return loss


def main():
    cfg = PPOConfig()
    torch.manual_seed(cfg.seed)
    device = xm.xla_device()
    env, model = PointMass(cfg.envs, cfg.seed), ActorCritic().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    scaler = ReturnScaler(cfg.scale_window)
    for it in range(cfg.iterations):
        data = rollout(model, env, cfg, device)
        returns = discounted(scaler(data["rew"].to(device)), cfg.gamma)
        torch_xla.sync()
        data["ret"] = returns.cpu()
        flat = {k: v.flatten(0, 1) for k, v in data.items()}
        loss = update(model, opt, flat, cfg, device)
        log.info("iter %d reward %.3f loss %.3f", it, data["rew"].mean().item(), loss.item())


if __name__ == "__main__":
    main()
