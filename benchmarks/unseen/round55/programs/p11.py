"""TD3 on a batch of torque-limited pendulums simulated in numpy."""
import copy
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class PendulumBatch:
    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.reset(np.ones(n, dtype=bool))

    def reset(self, mask):
        if not hasattr(self, "th"):
            self.th = np.zeros(self.n, np.float32)
            self.thd = np.zeros(self.n, np.float32)
            self.t = np.zeros(self.n, np.int64)
        k = int(mask.sum())
        self.th[mask] = self.rng.uniform(-np.pi, np.pi, k)
        self.thd[mask] = self.rng.uniform(-1, 1, k)
        self.t[mask] = 0

    def obs(self):
        return np.stack([np.cos(self.th), np.sin(self.th), self.thd], 1).astype(np.float32)

    def step(self, u):
        u = 2.0 * np.clip(u[:, 0], -1, 1)
        th = (self.th + np.pi) % (2 * np.pi) - np.pi
        cost = th ** 2 + 0.1 * self.thd ** 2 + 0.001 * u ** 2
        self.thd = np.clip(self.thd + (15.0 * np.sin(self.th) + 3.0 * u) * 0.05, -8, 8).astype(np.float32)
        self.th = (self.th + self.thd * 0.05).astype(np.float32)
        self.t += 1
        nxt, done = self.obs(), self.t >= self.rng.integers(30, 60, self.n)
        self.reset(done)
        return nxt, (-cost).astype(np.float32), done


class Replay:
    def __init__(self, cap, obs_dim, act_dim, rng):
        self.o = np.zeros((cap, obs_dim), np.float32)
        self.o2 = np.zeros((cap, obs_dim), np.float32)
        self.a = np.zeros((cap, act_dim), np.float32)
        self.r = np.zeros((cap, 1), np.float32)
        self.cap, self.ptr, self.size, self.rng = cap, 0, 0, rng

    def add(self, o, a, r, o2):
        for i in range(len(o)):
            self.o[self.ptr], self.a[self.ptr] = o[i], a[i]
            self.r[self.ptr], self.o2[self.ptr] = r[i], o2[i]
            self.ptr = (self.ptr + 1) % self.cap
            self.size = min(self.size + 1, self.cap)

    def sample(self, n, device):
        j = self.rng.integers(0, self.size, n)
        return [torch.from_numpy(x[j]).to(device) for x in (self.o, self.a, self.r, self.o2)]


def mlp(i, o, h=32):
    return nn.Sequential(nn.Linear(i, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, o))


class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1, self.q2 = mlp(4, 1), mlp(4, 1)

    def forward(self, o, a):
        x = torch.cat([o, a], 1)
        return self.q1(x), self.q2(x)


def polyak(src, dst, tau):
    with torch.no_grad():
        for p, q in zip(src.parameters(), dst.parameters()):
            q.mul_(1 - tau).add_(p, alpha=tau)


def main(steps=64, start=10, policy_delay=2, gamma=0.98):
    torch.manual_seed(3)
    rng = np.random.default_rng(3)
    device = torch_xla.device()
    env = PendulumBatch(8, rng)
    buf = Replay(400, 3, 1, rng)
    actor, critic = mlp(3, 1).to(device), Twin().to(device)
    actor_t, critic_t = copy.deepcopy(actor), copy.deepcopy(critic)
    a_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
    c_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(c_opt, steps)

    obs = env.obs()
    for step in range(steps):
        if step < start:
            act = rng.uniform(-1, 1, (8, 1)).astype(np.float32)
        else:
            with torch.no_grad():
                a = torch.tanh(actor(torch.from_numpy(obs).to(device)))
            sigma = 0.3 * (1 - step / steps)
            act = a.cpu().numpy() + sigma * rng.standard_normal((8, 1)).astype(np.float32)
        nxt, rew, _ = env.step(act)
        buf.add(obs, act, rew, nxt)
        obs = env.obs()
        if buf.size < 32:
            continue

        o, a, r, o2 = buf.sample(32, device)
        with torch.no_grad():
            noise = (0.2 * torch.randn_like(a)).clamp(-0.5, 0.5)
            a2 = (torch.tanh(actor_t(o2)) + noise).clamp(-1, 1)
            y = r + gamma * torch.min(*critic_t(o2, a2))
        q1, q2 = critic(o, a)
        c_loss = F.mse_loss(q1, y) + F.mse_loss(q2, y)
        c_opt.zero_grad(set_to_none=True)
        c_loss.backward()
        nn.utils.clip_grad_norm_(critic.parameters(), 5.0)
        c_opt.step()
        sched.step()

        if step % policy_delay == 0:
            a_loss = -critic.q1(torch.cat([o, torch.tanh(actor(o))], 1)).mean()
            a_opt.zero_grad(set_to_none=True)
            a_loss.backward()
            a_opt.step()
            polyak(actor, actor_t, 0.01)
            polyak(critic, critic_t, 0.01)
        torch_xla.sync()

        if step % 8 == 0:
            print(f"step {step} critic {c_loss.item():.4f} reward {rew.mean():.3f}")


if __name__ == "__main__":
    main()
