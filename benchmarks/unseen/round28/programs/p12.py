# TD3 on a toy point-mass. Env and replay live on the host, networks on the device.
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CFG = dict(
    obs_dim=4, act_dim=2, hidden=32, batch=32,
    gamma=0.97, tau=0.01, policy_noise=0.2, noise_clip=0.5,
    policy_delay=2, start_steps=40, total_steps=200,
    eval_every=40, eval_envs=8, eval_len=15, lr=1e-3, seed=0,
)


class PointMass:
    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.reset()

    def reset(self):
        self.pos = self.rng.uniform(-1, 1, (self.n, 2))
        self.vel = np.zeros((self.n, 2))
        self.t = 0
        return self.obs()

    def obs(self):
        return np.concatenate([self.pos, self.vel], 1).astype(np.float32)

    def step(self, a):
        self.vel = 0.8 * self.vel + 0.2 * a
        self.pos = np.clip(self.pos + 0.2 * self.vel, -2, 2)
        self.t += 1
        r = -np.square(self.pos).sum(1) - 0.01 * np.square(a).sum(1)
        return self.obs(), r.astype(np.float32), self.t >= 25


class Replay:
    def __init__(self, cap, o, a):
        self.data = [np.zeros((cap, d), np.float32) for d in (o, a, 1, o, 1)]
        self.cap, self.size, self.i = cap, 0, 0

    def add(self, *row):
        for buf, x in zip(self.data, row):
            buf[self.i] = x
        self.i = (self.i + 1) % self.cap
        self.size = min(self.size + 1, self.cap)

    def sample(self, n, rng):
        idx = rng.randint(0, self.size, n)
        return [torch.from_numpy(b[idx]) for b in self.data]


def mlp(i, h, o, last=None):
    layers = [nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o)]
    return nn.Sequential(*layers, *([last] if last else []))


class Critic(nn.Module):
    def __init__(self, o, a, h):
        super().__init__()
        self.q1, self.q2 = mlp(o + a, h, 1), mlp(o + a, h, 1)

    def forward(self, s, a):
        x = torch.cat([s, a], -1)
        return self.q1(x), self.q2(x)


class TD3:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        self.actor = mlp(cfg["obs_dim"], cfg["hidden"], cfg["act_dim"], nn.Tanh()).to(device)
        self.critic = Critic(cfg["obs_dim"], cfg["act_dim"], cfg["hidden"]).to(device)
        self.actor_t = copy.deepcopy(self.actor).requires_grad_(False)
        self.critic_t = copy.deepcopy(self.critic).requires_grad_(False)
        self.a_opt = torch.optim.SGD(self.actor.parameters(), lr=cfg["lr"], momentum=0.9)
        self.c_opt = torch.optim.SGD(self.critic.parameters(), lr=cfg["lr"], momentum=0.9)
        self.updates = 0

    @torch.no_grad()
    def act(self, obs):
        a = self.actor(torch.from_numpy(obs).to(self.device))
        torch_xla.sync()
        return a.cpu().numpy()

    def update(self, batch):
        c = self.cfg
        s, a, r, s2, done = [x.to(self.device) for x in batch]
        with torch.no_grad():
            noise = (torch.randn_like(a) * c["policy_noise"]).clamp(-c["noise_clip"], c["noise_clip"])
            a2 = (self.actor_t(s2) + noise).clamp(-1, 1)
            target = r + c["gamma"] * (1 - done) * torch.min(*self.critic_t(s2, a2))
        q1, q2 = self.critic(s, a)
        c_loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        self.c_opt.zero_grad()
        c_loss.backward()
        self.c_opt.step()

        self.updates += 1
        if self.updates % c["policy_delay"] == 0:
            a_loss = -self.critic.q1(torch.cat([s, self.actor(s)], -1)).mean()
            self.a_opt.zero_grad()
            a_loss.backward()
            self.a_opt.step()
            with torch.no_grad():
                for net, tgt in ((self.actor, self.actor_t), (self.critic, self.critic_t)):
                    for p, q in zip(net.parameters(), tgt.parameters()):
                        q.mul_(1 - c["tau"]).add_(p, alpha=c["tau"])
        torch_xla.sync()


def evaluate(agent, env, horizon):
    obs, total = env.reset(), 0.0
    for _ in range(horizon):
        obs, r, _ = env.step(agent.act(obs))
        total += r.mean()
    return total


if __name__ == "__main__":
    rng = np.random.RandomState(CFG["seed"])
    torch.manual_seed(CFG["seed"])
    agent = TD3(CFG, torch_xla.device())
    env, test_env = PointMass(1, rng), PointMass(CFG["eval_envs"], rng)
    rb = Replay(1000, CFG["obs_dim"], CFG["act_dim"])
    obs = env.reset()
    for step in range(1, CFG["total_steps"] + 1):
        if step <= CFG["start_steps"]:
            act = rng.uniform(-1, 1, (1, CFG["act_dim"]))
        else:
            act = np.clip(agent.act(obs) + 0.1 * rng.randn(1, CFG["act_dim"]), -1, 1)
        nxt, r, done = env.step(act)
        rb.add(obs[0], act[0], r, nxt[0], 0.0)
        obs = env.reset() if done else nxt
        if step > CFG["start_steps"]:
            agent.update(rb.sample(CFG["batch"], rng))
        if step % CFG["eval_every"] == 0:
            print(f"step {step}: return {evaluate(agent, test_env, CFG['eval_len']):.3f}", flush=True)
