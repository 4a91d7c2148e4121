"""TD3 on a vectorised pendulum, replay memory on the accelerator."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_ENVS = 8
CAPACITY = 4096
WARMUP = 6
STEPS = 30
BATCH = 32
GAMMA = 0.98
TAU = 0.01
POLICY_DELAY = 2


class Pendulum:
    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.th = self.rng.uniform(-np.pi, np.pi, n)
        self.vel = self.rng.uniform(-1, 1, n)
        self.t = np.zeros(n, dtype=int)

    def obs(self):
        return np.stack([np.cos(self.th), np.sin(self.th), self.vel / 8], -1).astype(np.float32)

    def step(self, action):
        u = 2.0 * action[:, 0]
        angle = (self.th + np.pi) % (2 * np.pi) - np.pi
        reward = -(angle**2 + 0.1 * self.vel**2 + 0.001 * u**2)
        self.vel = np.clip(self.vel + (15 * np.sin(self.th) + 3 * u) * 0.05, -8, 8)
        self.th = self.th + self.vel * 0.05
        nxt = self.obs()
        self.t += 1
        over = self.t >= 200
        self.th[over] = self.rng.uniform(-np.pi, np.pi, over.sum())
        self.vel[over] = 0.0
        self.t[over] = 0
        return nxt, reward.astype(np.float32)


class Replay:
    def __init__(self, capacity, obs_dim, act_dim, device):
        self.device, self.capacity = device, capacity
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.act = torch.zeros(capacity, act_dim, device=device)
        self.rew = torch.zeros(capacity, device=device)
        self.nxt = torch.zeros(capacity, obs_dim, device=device)
        self.ptr = self.size = 0

    def add(self, obs, act, rew, nxt):
        n = len(rew)
        rows = slice(self.ptr, self.ptr + n)
        for store, value in ((self.obs, obs), (self.act, act), (self.rew, rew), (self.nxt, nxt)):
            store[rows] = torch.from_numpy(value).to(self.device)
        self.ptr = (self.ptr + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, rng, batch):
        idx = torch.from_numpy(rng.integers(0, self.size, batch)).to(self.device)
        return self.obs[idx], self.act[idx], self.rew[idx], self.nxt[idx]


def mlp(n_in, n_out, *last):
    return nn.Sequential(nn.Linear(n_in, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, n_out), *last)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1, self.q2 = mlp(4, 1), mlp(4, 1)

    def forward(self, obs, act):
        z = torch.cat([obs, act], -1)
        return self.q1(z).squeeze(-1), self.q2(z).squeeze(-1)


@torch.no_grad()
def soft_update(target, online):
    for t, o in zip(target.parameters(), online.parameters()):
        t.lerp_(o, TAU)


def main():
    torch.manual_seed(8)
    rng = np.random.default_rng(8)
    device = torch_xla.device()

    env = Pendulum(N_ENVS, seed=8)
    actor, critic = mlp(3, 1, nn.Tanh()).to(device), Critic().to(device)
    actor_t, critic_t = copy.deepcopy(actor), copy.deepcopy(critic)
    opt_a = torch.optim.Adam(actor.parameters(), lr=1e-3)
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3)
    replay = Replay(CAPACITY, 3, 1, device)

    obs, returns = env.obs(), []
    for step in range(STEPS):
        if step < WARMUP:
            act = rng.uniform(-1, 1, (N_ENVS, 1)).astype(np.float32)
        else:
            with torch.no_grad():
                act = actor(torch.from_numpy(obs).to(device)).cpu().numpy()
            act = np.clip(act + 0.1 * rng.normal(size=act.shape), -1, 1).astype(np.float32)
        nxt, rew = env.step(act)
        replay.add(obs, act, rew, nxt)
        returns.append(rew.mean())
        obs = nxt

        if step >= WARMUP:
            o, a, r, n = replay.sample(rng, BATCH)
            with torch.no_grad():
                noise = (0.2 * torch.randn_like(a)).clamp(-0.5, 0.5)
                t1, t2 = critic_t(n, (actor_t(n) + noise).clamp(-1, 1))
                goal = r + GAMMA * torch.minimum(t1, t2)
            q1, q2 = critic(o, a)
            loss = F.mse_loss(q1, goal) + F.mse_loss(q2, goal)
            opt_c.zero_grad()
            loss.backward()
            opt_c.step()

            if step % POLICY_DELAY == 0:
                actor_loss = -critic(o, actor(o))[0].mean()
                opt_a.zero_grad()
                actor_loss.backward()
                opt_a.step()
                soft_update(actor_t, actor)
                soft_update(critic_t, critic)
        torch_xla.sync()

        if (step + 1) % 10 == 0:
            print(f"step {step + 1:3d}  td {loss.item():8.3f}  reward {np.mean(returns[-10:]):.3f}")


if __name__ == "__main__":
    main()
