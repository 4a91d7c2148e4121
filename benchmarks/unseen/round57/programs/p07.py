"""Double DQN with prioritised replay on a small tracking task; several environments side by side."""
import copy
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class TrackEnvs:
    """A cart is pushed left, right or not at all and should stay close to a drifting target."""

    def __init__(self, n, seed, horizon=40):
        self.n, self.horizon = n, horizon
        self.rng = np.random.default_rng(seed)
        self.state = np.zeros((n, 4), dtype=np.float32)
        self.t = np.zeros(n, dtype=np.int64)
        self._reset(np.ones(n, dtype=bool))

    def _reset(self, mask):
        self.state[mask] = self.rng.uniform(-1, 1, (int(mask.sum()), 4))
        self.t[mask] = self.rng.integers(0, 5, int(mask.sum()))

    def step(self, action):
        x, v, g, gv = self.state.T
        v = 0.9 * v + 0.2 * (action - 1)
        gv = 0.95 * gv + 0.05 * self.rng.normal(size=self.n)
        nxt = np.stack([x + 0.2 * v, v, np.clip(g + 0.1 * gv, -2, 2), gv], 1).astype(np.float32)
        reward = (1.0 - np.abs(nxt[:, 0] - nxt[:, 2])).astype(np.float32)
        self.t += 1
        done = (self.t >= self.horizon) | (np.abs(nxt[:, 0]) > 3)
        self.state = nxt.copy()
        self._reset(done)
        return nxt, reward, done.astype(np.float32)


class PrioritisedReplay:
    """Transitions stay in host memory, priorities live with the learner."""

    def __init__(self, capacity, obs_dim, device, alpha=0.6):
        self.capacity, self.alpha, self.device = capacity, alpha, device
        self.obs = np.zeros((capacity, obs_dim), np.float32)
        self.nxt = np.zeros((capacity, obs_dim), np.float32)
        self.act = np.zeros(capacity, np.int64)
        self.rew = np.zeros(capacity, np.float32)
        self.done = np.zeros(capacity, np.float32)
        self.priority = torch.zeros(capacity, device=device)
        self.max_priority = torch.ones((), device=device)
        self.pos, self.size = 0, 0

    def add(self, obs, act, rew, nxt, done):
        at = (self.pos + np.arange(len(obs))) % self.capacity
        self.obs[at], self.act[at], self.rew[at], self.nxt[at], self.done[at] = obs, act, rew, nxt, done
        idx = torch.as_tensor(at, device=self.device)
        self.priority.index_copy_(0, idx, self.max_priority.expand(len(obs)))
        self.pos = int((self.pos + len(obs)) % self.capacity)
        self.size = min(self.size + len(obs), self.capacity)

    def sample(self, n, beta):
        scaled = self.priority[:self.size] ** self.alpha
        cdf = torch.cumsum(scaled, 0)
        u = torch.rand(n, device=self.device) * cdf[-1]
        idx = torch.searchsorted(cdf, u).clamp(max=self.size - 1)
        prob = scaled[idx] / cdf[-1]
        weight = (self.size * prob) ** -beta
        weight = weight / weight.max()
        host = idx.cpu().numpy()
        batch = [torch.as_tensor(a[host]).to(self.device)
                 for a in (self.obs, self.act, self.rew, self.nxt, self.done)]
        return idx, weight.detach(), batch

    def update(self, idx, td):
        p = td.abs() + 1e-3
        self.priority.index_copy_(0, idx, p)
        self.max_priority = torch.maximum(self.max_priority, p.max())


class Dueling(nn.Module):
    def __init__(self, obs_dim=4, actions=3, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.value, self.adv = nn.Linear(width, 1), nn.Linear(width, actions)

    def forward(self, x):
        h = self.body(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(-1, keepdim=True)


def td_errors(net, target, batch, gamma):
    obs, act, rew, nxt, done = batch
    q = net(obs).gather(1, act[:, None]).squeeze(1)
    with torch.no_grad():
        best = net(nxt).argmax(-1, keepdim=True)
        boot = target(nxt).gather(1, best).squeeze(1)
        y = rew + gamma * (1 - done) * boot
    return q - y


def main():
    torch.manual_seed(41)
    np.random.seed(41)
    device = torch_xla.device()
    xm.set_rng_state(41)
    n_env, steps, batch_size, gamma = 8, 20, 64, 0.97

    envs = TrackEnvs(n_env, seed=41)
    replay = PrioritisedReplay(4096, 4, device)
    net = Dueling().to(device)
    target = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, eps=1e-5)
    rewards = []

    for step in range(-6, steps):
        obs = envs.state.copy()
        eps = 0.05 + 0.95 * math.exp(-max(step, 0) / 8)
        with torch.no_grad():
            greedy = net(torch.as_tensor(obs).to(device)).argmax(-1).cpu().numpy()
        explore = np.random.rand(n_env) < eps
        act = np.where(explore, np.random.randint(0, 3, n_env), greedy)
        nxt, rew, done = envs.step(act)
        replay.add(obs, act, rew, nxt, done)
        rewards.append(rew.mean())
        if step < 0:
            torch_xla.sync()
            continue

        beta = min(1.0, 0.4 + 0.6 * step / steps)
        idx, weight, batch = replay.sample(batch_size, beta)
        td = td_errors(net, target, batch, gamma)
        loss = (weight * F.huber_loss(td, torch.zeros_like(td), reduction="none")).mean()
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 10.0)
        opt.step()
        replay.update(idx, td.detach())
        with torch.no_grad():
            for p, t in zip(net.parameters(), target.parameters()):
                t.lerp_(p, 0.02)
        torch_xla.sync()
        if (step + 1) % 5 == 0:
            print(f"step {step + 1:3d} loss {loss.item():.4f} eps {eps:.2f} reward {np.mean(rewards[-5:]):.3f}")


if __name__ == "__main__":
    main()
