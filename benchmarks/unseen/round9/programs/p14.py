"""TD3 on a toy point-mass task; environment and replay stay on the host."""
import copy
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

args = SimpleNamespace(start_steps=24, total_steps=64, batch=32, gamma=0.97, tau=0.02, policy_delay=2,
                       policy_noise=0.2, noise_clip=0.5, expl=0.1, eval_every=20, seed=5)


class PointMass:
    obs_dim, act_dim, horizon = 6, 2, 16

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.pos, self.vel = self.rng.uniform(-1, 1, 2), np.zeros(2)
        self.goal, self.t = self.rng.uniform(-1, 1, 2), 0
        return self.obs()

    def obs(self):
        return np.concatenate([self.pos, self.vel, self.goal]).astype(np.float32)

    def step(self, a):
        self.vel = 0.9 * self.vel + 0.1 * np.clip(a, -1, 1)
        self.pos = self.pos + self.vel
        self.t += 1
        return self.obs(), -float(np.linalg.norm(self.pos - self.goal)), self.t >= self.horizon


class Replay:
    def __init__(self, capacity, env, seed):
        self.rng = np.random.default_rng(seed)
        self.s, self.s2 = (np.zeros((capacity, env.obs_dim), np.float32) for _ in range(2))
        self.a = np.zeros((capacity, env.act_dim), np.float32)
        self.r, self.d = (np.zeros((capacity, 1), np.float32) for _ in range(2))
        self.n, self.capacity = 0, capacity

    def add(self, s, a, r, s2, d):
        i = self.n % self.capacity
        self.s[i], self.a[i], self.r[i], self.s2[i], self.d[i] = s, a, r, s2, d
        self.n += 1

    def sample(self, k, device):
        i = self.rng.integers(0, min(self.n, self.capacity), k)
        return [torch.from_numpy(x[i]).to(device) for x in (self.s, self.a, self.r, self.s2, self.d)]


def mlp(i, o, h=48):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Agent:
    def __init__(self, env, device):
        self.device = device
        self.actor = nn.Sequential(mlp(env.obs_dim, env.act_dim), nn.Tanh()).to(device)
        self.q = nn.ModuleList(mlp(env.obs_dim + env.act_dim, 1) for _ in range(2)).to(device)
        self.actor_t, self.q_t = copy.deepcopy(self.actor), copy.deepcopy(self.q)
        self.opt_a = torch.optim.Adam(self.actor.parameters(), 1e-3)
        self.opt_q = torch.optim.Adam(self.q.parameters(), 1e-3)
        self.updates = 0

    @torch.no_grad()
    def act(self, obs):
        return self.actor(torch.from_numpy(obs).to(self.device)).cpu().numpy()

    def update(self, batch):
        s, a, r, s2, d = batch
        with torch.no_grad():
            eps = (torch.randn_like(a) * args.policy_noise).clamp(-args.noise_clip, args.noise_clip)
            x2 = torch.cat([s2, (self.actor_t(s2) + eps).clamp(-1, 1)], 1)
            target = r + args.gamma * (1 - d) * torch.minimum(self.q_t[0](x2), self.q_t[1](x2))
        x = torch.cat([s, a], 1)
        loss = sum(F.mse_loss(q(x), target) for q in self.q)
        self.opt_q.zero_grad()
        loss.backward()
        self.opt_q.step()
        self.updates += 1
        if self.updates % args.policy_delay == 0:
            loss_a = -self.q[0](torch.cat([s, self.actor(s)], 1)).mean()
            self.opt_a.zero_grad()
            loss_a.backward()
            self.opt_a.step()
            with torch.no_grad():
                for net, tgt in ((self.actor, self.actor_t), (self.q, self.q_t)):
                    for p, pt in zip(net.parameters(), tgt.parameters()):
                        pt.lerp_(p, args.tau)
        torch_xla.sync()
        return loss.detach()


def evaluate(agent, episodes=4):
    envs = [PointMass(100 + i) for i in range(episodes)]
    obs, ret = np.stack([e.reset() for e in envs]), np.zeros(episodes)
    for _ in range(PointMass.horizon):
        out = [e.step(a) for e, a in zip(envs, agent.act(obs))]
        obs, ret = np.stack([o[0] for o in out]), ret + [o[1] for o in out]
    return ret.mean()


torch.manual_seed(args.seed)
device = torch_xla.device()
env = PointMass(args.seed)
agent, replay = Agent(env, device), Replay(1000, env, args.seed)
rng = np.random.default_rng(args.seed)
obs = env.reset()
for t in range(args.total_steps):
    if t < args.start_steps:
        a = rng.uniform(-1, 1, env.act_dim)
    else:
        a = np.clip(agent.act(obs[None])[0] + args.expl * rng.standard_normal(env.act_dim), -1, 1)
    nxt, rew, done = env.step(a)
    replay.add(obs, a, rew, nxt, float(done))
    obs = env.reset() if done else nxt
    if t >= args.start_steps:
        q_loss = agent.update(replay.sample(args.batch, device))
        if (t + 1) % args.eval_every == 0:
            print(f"t={t + 1} q_loss={q_loss.item():.4f} return={evaluate(agent):.2f}")
