"""Double DQN with prioritized replay (replay lives on the accelerator)."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch_xla.core.xla_model as xm


@dataclass
class HP:
    n_envs: int = 8
    size: int = 9
    capacity: int = 256
    batch: int = 32
    gamma: float = 0.95
    alpha: float = 0.6
    beta_start: float = 0.4
    lr: float = 2e-3
    tau: float = 0.05
    iterations: int = 32
    eps_start: float = 1.0
    eps_end: float = 0.1


class LineWorld:
    """Walk on a ring of cells towards a goal, vectorised."""

    def __init__(self, hp, rng):
        self.hp, self.rng = hp, rng
        self.pos = rng.integers(0, hp.size, hp.n_envs)
        self.goal = rng.integers(0, hp.size, hp.n_envs)

    def obs(self):
        eye = np.eye(self.hp.size, dtype=np.float32)
        return np.concatenate([eye[self.pos], eye[self.goal]], 1)

    def step(self, a):
        self.pos = (self.pos + a - 1) % self.hp.size
        done = self.pos == self.goal
        reward = np.where(done, 1.0, -0.05).astype(np.float32)
        self.goal = np.where(done, self.rng.integers(0, self.hp.size, self.hp.n_envs), self.goal)
        return self.obs(), reward, done.astype(np.float32)


class PrioritizedReplay:
    def __init__(self, hp, obs_dim, device):
        self.hp, self.device, self.pos = hp, device, 0
        n = hp.capacity
        self.obs = torch.zeros(n, obs_dim, device=device)
        self.nxt = torch.zeros(n, obs_dim, device=device)
        self.act = torch.zeros(n, dtype=torch.long, device=device)
        self.rew = torch.zeros(n, device=device)
        self.done = torch.zeros(n, device=device)
        self.prio = torch.full((n,), 1e-6, device=device)

    def add(self, o, a, r, n, d):
        where = torch.from_numpy((self.pos + np.arange(len(r))) % self.hp.capacity).to(self.device)
        put = lambda buf, v: buf.index_copy_(0, where, torch.from_numpy(v).to(self.device))
        put(self.obs, o), put(self.act, a), put(self.rew, r), put(self.nxt, n), put(self.done, d)
        self.prio.index_copy_(0, where, self.prio.max().expand(len(r)).clamp(min=1.0))
        self.pos += len(r)

    def sample(self, beta):
        p = self.prio.pow(self.hp.alpha)
        p = p / p.sum()
        idx = torch.multinomial(p, self.hp.batch, replacement=True)
        w = (self.hp.capacity * p[idx]).pow(-beta)
        w = w / w.max()
        return idx, w, (self.obs[idx], self.act[idx], self.rew[idx], self.nxt[idx], self.done[idx])

    def update(self, idx, td):
        self.prio.index_copy_(0, idx, td.abs() + 1e-4)


def mlp(obs_dim, n_act):
    return nn.Sequential(nn.Linear(obs_dim, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, n_act))


def learn(q, target, opt, replay, hp, beta):
    idx, w, (o, a, r, n, d) = replay.sample(beta)
    with torch.no_grad():
        best = q(n).argmax(1, keepdim=True)
        y = r + hp.gamma * (1 - d) * target(n).gather(1, best).squeeze(1)
    td = y - q(o).gather(1, a[:, None]).squeeze(1)
    loss = (w * td.square()).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        replay.update(idx, td)
        for tp, p in zip(target.parameters(), q.parameters()):
            tp.lerp_(p, hp.tau)
    return loss.detach()


def main():
    hp = HP()
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    dev = xm.xla_device()
    env = LineWorld(hp, rng)
    q, target = mlp(2 * hp.size, 3).to(dev), mlp(2 * hp.size, 3).to(dev)
    target.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=hp.lr)
    replay = PrioritizedReplay(hp, 2 * hp.size, dev)
    xm.mark_step()
    obs, ret = env.obs(), 0.0
    for it in range(hp.iterations):
        frac = it / hp.iterations
        eps = hp.eps_start + frac * (hp.eps_end - hp.eps_start)
        beta = hp.beta_start + frac * (1.0 - hp.beta_start)
        with torch.no_grad():
            greedy = q(torch.from_numpy(obs).to(dev)).argmax(1).cpu().numpy()
        act = np.where(rng.random(hp.n_envs) < eps, rng.integers(0, 3, hp.n_envs), greedy)
        nxt, rew, done = env.step(act)
        replay.add(obs, act, rew, nxt, done)
        obs, ret = nxt, ret + rew.mean()
        loss = learn(q, target, opt, replay, hp, beta)
        xm.mark_step()
        if it % 15 == 14:
            print(f"it {it} eps {eps:.2f} beta {beta:.2f} loss {loss.item():.4f} return {ret:.2f}")


if __name__ == "__main__":
    main()
