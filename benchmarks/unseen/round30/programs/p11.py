"""Soft actor-critic-lite (deterministic actor, TD3 flavour) on a toy point-mass task."""
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Args:
    seed: int = 3
    capacity: int = 512
    batch_size: int = 32
    warmup: int = 16
    total_steps: int = 70
    gamma: float = 0.97
    tau: float = 0.01
    lr: float = 1e-3
    obs_dim: int = 4
    act_dim: int = 2


class PointMass:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.pos = self.rng.uniform(-1, 1, 2)
        self.vel = np.zeros(2)
        self.t = 0
        return self._obs()

    def _obs(self):
        return np.concatenate([self.pos, self.vel]).astype(np.float32)

    def step(self, a):
        self.vel = 0.9 * self.vel + 0.1 * np.clip(a, -1, 1)
        self.pos = self.pos + self.vel
        self.t += 1
        r = -float(np.linalg.norm(self.pos))
        return self._obs(), r, self.t >= 25


class Replay:
    """Transitions live next to the networks so that sampling costs no transfer."""

    def __init__(self, args, device):
        n = args.capacity
        self.obs = torch.zeros(n, args.obs_dim, device=device)
        self.nxt = torch.zeros(n, args.obs_dim, device=device)
        self.act = torch.zeros(n, args.act_dim, device=device)
        self.rew = torch.zeros(n, device=device)
        self.done = torch.zeros(n, device=device)
        self.capacity, self.device = n, device
        self.ptr, self.size = 0, 0

    def add(self, o, a, r, o2, d):
        i = self.ptr
        self.obs[i] = torch.from_numpy(o).to(self.device)
        self.act[i] = torch.from_numpy(a).to(self.device)
        self.nxt[i] = torch.from_numpy(o2).to(self.device)
        self.rew[i] = r
        self.done[i] = float(d)
        self.ptr = (self.ptr + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, rng, batch_size):
        idx = torch.from_numpy(rng.integers(0, self.size, batch_size)).to(self.device)
        return self.obs[idx], self.act[idx], self.rew[idx], self.nxt[idx], self.done[idx]


def mlp(i, o, h=32):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


def main(args):
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    device = xm.xla_device()
    actor, actor_t = mlp(args.obs_dim, args.act_dim).to(device), mlp(args.obs_dim, args.act_dim).to(device)
    critic, critic_t = (mlp(args.obs_dim + args.act_dim, 1).to(device) for _ in range(2))
    actor_t.load_state_dict(actor.state_dict())
    critic_t.load_state_dict(critic.state_dict())
    a_opt = torch.optim.Adam(actor.parameters(), lr=args.lr)
    c_opt = torch.optim.Adam(critic.parameters(), lr=args.lr)
    buf = Replay(args, device)
    env = PointMass(args.seed)
    host_actor = mlp(args.obs_dim, args.act_dim)
    xm.mark_step()

    obs = env.reset()
    for step in range(args.total_steps):
        noise = 0.3 * math.exp(-step / 50)
        with torch.no_grad():
            act = torch.tanh(host_actor(torch.from_numpy(obs))).numpy()
        act = (act + noise * rng.standard_normal(args.act_dim)).astype(np.float32)
        nxt, rew, done = env.step(act)
        buf.add(obs, act, rew, nxt, done)
        obs = env.reset() if done else nxt
        xm.mark_step()
        if step < args.warmup:
            continue

        o, a, r, o2, d = buf.sample(rng, args.batch_size)
        with torch.no_grad():
            q2 = critic_t(torch.cat([o2, torch.tanh(actor_t(o2))], -1)).squeeze(-1)
            target = r + args.gamma * (1 - d) * q2
        c_loss = F.mse_loss(critic(torch.cat([o, a], -1)).squeeze(-1), target)
        c_opt.zero_grad()
        c_loss.backward()
        c_opt.step()
        a_loss = -critic(torch.cat([o, torch.tanh(actor(o))], -1)).mean()
        a_opt.zero_grad()
        a_loss.backward()
        a_opt.step()
        with torch.no_grad():
            for net, tgt in ((actor, actor_t), (critic, critic_t)):
                for p, q in zip(net.parameters(), tgt.parameters()):
                    q.mul_(1 - args.tau).add_(p, alpha=args.tau)
        xm.mark_step()
        if step % 10 == 0:
            host_actor.load_state_dict({k: v.cpu() for k, v in actor.state_dict().items()})
            print(f"step {step:3d}  critic {c_loss.item():.4f}  actor {a_loss.item():.4f}")


if __name__ == "__main__":
    main(Args())
