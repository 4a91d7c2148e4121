import copy
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

# TD3 on a small reaching task (two-link point mass with drag).
OBS, ACT, HID = 6, 2, 48
BATCH = 64
GAMMA, TAU = 0.98, 0.01
POLICY_DELAY = 2
TOTAL, START_TRAIN, EVAL_EVERY = 70, 10, 15


class Reacher:
    def __init__(self, seed, horizon=30):
        self.rng = np.random.default_rng(seed)
        self.horizon = horizon

    def reset(self):
        self.pos = self.rng.uniform(-1, 1, 2)
        self.vel = np.zeros(2)
        self.goal = self.rng.uniform(-1, 1, 2)
        self.t = 0
        return self._obs()

    def _obs(self):
        return np.concatenate([self.pos, self.vel, self.goal]).astype(np.float32)

    def step(self, a):
        self.vel = 0.8 * self.vel + 0.2 * np.clip(a, -1, 1)
        self.pos = self.pos + 0.2 * self.vel
        self.t += 1
        dist = float(np.linalg.norm(self.pos - self.goal))
        done = dist < 0.05
        return self._obs(), -dist, done, self.t >= self.horizon


class Replay:
    def __init__(self, cap, seed):
        self.rng = np.random.default_rng(seed)
        self.data = [np.zeros((cap, d), np.float32) for d in (OBS, ACT, 1, OBS, 1)]
        self.cap, self.n, self.head = cap, 0, 0

    def add(self, *fields):
        for store, f in zip(self.data, fields):
            store[self.head] = f
        self.head = (self.head + 1) % self.cap
        self.n = min(self.n + 1, self.cap)

    def sample(self, device):
        idx = self.rng.integers(0, self.n, size=BATCH)
        return [torch.from_numpy(s[idx]).to(device) for s in self.data]


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, HID), nn.ReLU(), nn.Linear(HID, HID), nn.ReLU(), nn.Linear(HID, o))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = mlp(OBS, ACT)

    def forward(self, obs):
        return torch.tanh(self.net(obs))


class TwinCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q1, self.q2 = mlp(OBS + ACT, 1), mlp(OBS + ACT, 1)

    def forward(self, obs, act):
        x = torch.cat([obs, act], -1)
        return self.q1(x), self.q2(x)


class TD3:
    def __init__(self, device):
        self.device = device
        self.actor, self.critic = Actor().to(device), TwinCritic().to(device)
        self.actor_t, self.critic_t = copy.deepcopy(self.actor), copy.deepcopy(self.critic)
        self.opt_a = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.opt_c = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    @torch.no_grad()
    def act(self, obs):
        a = self.actor(torch.from_numpy(obs[None]).to(self.device))
        return a.cpu().numpy()[0]

    def update(self, batch, n_updates, noise_scale):
        obs, act, rew, nxt, done = batch
        with torch.no_grad():
            noise = (torch.randn_like(act) * noise_scale).clamp(-0.5, 0.5)
            nxt_a = (self.actor_t(nxt) + noise).clamp(-1, 1)
            q1, q2 = self.critic_t(nxt, nxt_a)
            target = rew + GAMMA * (1 - done) * torch.min(q1, q2)
        q1, q2 = self.critic(obs, act)
        loss = F.mse_loss(q1, target) + F.mse_loss(q2, target)
        self.opt_c.zero_grad()
        loss.backward()
        self.opt_c.step()
        if n_updates % POLICY_DELAY == 0:
            pi_loss = -self.critic(obs, self.actor(obs))[0].mean()
            self.opt_a.zero_grad()
            pi_loss.backward()
            self.opt_a.step()
            with torch.no_grad():
                for net, tgt in ((self.actor, self.actor_t), (self.critic, self.critic_t)):
                    for p, t in zip(net.parameters(), tgt.parameters()):
                        t.lerp_(p, TAU)
        return loss.detach()


def evaluate(agent, episodes=2):
    env, total = Reacher(seed=999, horizon=12), 0.0
    for _ in range(episodes):
        obs, over = env.reset(), False
        while not over:
            obs, r, done, trunc = env.step(agent.act(obs))
            total += r
            over = done or trunc
    return total / episodes


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    agent = TD3(device)
    env, replay = Reacher(seed=1), Replay(5000, seed=2)
    rng = np.random.default_rng(3)
    torch_xla.sync()

    obs, n_updates = env.reset(), 0
    for step in range(TOTAL):
        sigma = 0.4 * (1 - step / TOTAL) + 0.05
        for _ in range(4):
            if step < START_TRAIN:
                a = rng.uniform(-1, 1, ACT)
            else:
                a = np.clip(agent.act(obs) + sigma * rng.normal(size=ACT), -1, 1)
            nxt, r, done, trunc = env.step(a)
            replay.add(obs, a, r, nxt, float(done))
            obs = env.reset() if done or trunc else nxt
        if step >= START_TRAIN:
            n_updates += 1
            loss = agent.update(replay.sample(device), n_updates, noise_scale=sigma)
            torch_xla.sync()
            if step % 10 == 0:
                print(f"step {step} critic {loss.item():.4f}")
        if (step + 1) % EVAL_EVERY == 0:
            print(f"step {step + 1} return {evaluate(agent):.3f}")


if __name__ == "__main__":
    main()
