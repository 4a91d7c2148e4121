"""Double DQN with prioritized replay on a batch of toy pole-balancing environments."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class PoleEnvs:
    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.state = rng.uniform(-0.05, 0.05, (n, 4)).astype(np.float32)

    def step(self, action):
        x, v, th, w = self.state.T
        force = np.where(action == 1, 10.0, -10.0)
        acc = (force + 0.05 * w ** 2 * np.sin(th)) / 1.1
        wacc = (9.8 * np.sin(th) - np.cos(th) * acc) / 0.68
        dt = 0.02
        nxt = np.stack([x + dt * v, v + dt * acc, th + dt * w, w + dt * wacc], 1).astype(np.float32)
        done = (np.abs(nxt[:, 0]) > 2.4) | (np.abs(nxt[:, 2]) > 0.21)
        prev = self.state
        self.state = np.where(done[:, None], self.rng.uniform(-0.05, 0.05, nxt.shape), nxt).astype(np.float32)
        return prev, nxt, np.ones(self.n, np.float32), done.astype(np.float32)


class PrioritizedReplay:
    def __init__(self, capacity, alpha, rng):
        self.capacity, self.alpha, self.rng = capacity, alpha, rng
        self.obs = np.zeros((capacity, 4), np.float32)
        self.nxt = np.zeros((capacity, 4), np.float32)
        self.act = np.zeros(capacity, np.int64)
        self.rew = np.zeros(capacity, np.float32)
        self.done = np.zeros(capacity, np.float32)
        self.prio = np.zeros(capacity, np.float32)
        self.pos = self.size = 0

    def add(self, obs, act, rew, nxt, done):
        top = self.prio.max() if self.size else 1.0
        for i in range(len(obs)):
            p = self.pos
            self.obs[p], self.act[p], self.rew[p] = obs[i], act[i], rew[i]
            self.nxt[p], self.done[p], self.prio[p] = nxt[i], done[i], top
            self.pos = (p + 1) % self.capacity
            self.size = min(self.size + 1, self.capacity)

    def sample(self, n):
        p = self.prio[:self.size] ** self.alpha
        p = p / p.sum()
        idx = self.rng.choice(self.size, n, p=p)
        fields = (self.obs[idx], self.act[idx], self.rew[idx], self.nxt[idx], self.done[idx],
                  p[idx].astype(np.float32))
        return idx, [torch.from_numpy(f) for f in fields]

    def update(self, idx, td):
        self.prio[idx] = np.abs(td) + 1e-3


def qnet():
    return nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))


class Agent:
    def __init__(self, device, lr=1e-3, gamma=0.99):
        self.device, self.gamma = device, gamma
        self.online = qnet().to(device)
        self.target = qnet().to(device).requires_grad_(False)
        self.sync_target()
        self.opt = torch.optim.Adam(self.online.parameters(), lr=lr)

    def sync_target(self):
        self.target.load_state_dict(self.online.state_dict())
        xm.mark_step()

    @torch.no_grad()
    def act(self, obs, eps, rng):
        greedy = self.online(torch.from_numpy(obs).to(self.device)).argmax(1).cpu().numpy()
        return np.where(rng.random(len(obs)) < eps, rng.integers(0, 2, len(obs)), greedy)

    def learn(self, batch, size, beta):
        obs, act, rew, nxt, done, prob = [b.to(self.device) for b in batch]
        weight = (size * prob) ** (-beta)
        weight = weight / weight.max()
        with torch.no_grad():
            best = self.online(nxt).argmax(1, keepdim=True)
            y = rew + self.gamma * (1 - done) * self.target(nxt).gather(1, best).squeeze(1)
        q = self.online(obs).gather(1, act[:, None]).squeeze(1)
        loss = (weight * F.smooth_l1_loss(q, y, reduction="none")).mean()
        self.opt.zero_grad()
        loss.backward()
        xm.optimizer_step(self.opt, barrier=True)
        return loss.detach(), (q - y).detach().cpu().numpy()


def main(total_updates=32, warmup=12):
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    envs = PoleEnvs(8, rng)
    memory = PrioritizedReplay(512, alpha=0.6, rng=rng)
    agent = Agent(torch_xla.device())
    for it in range(total_updates + warmup):
        eps = max(0.05, 1.0 - it / 24)
        action = agent.act(envs.state, eps, rng)
        obs, nxt, rew, done = envs.step(action)
        memory.add(obs, action, rew, nxt, done)
        if it < warmup:
            continue
        beta = 0.4 + 0.6 * (it - warmup) / total_updates
        idx, batch = memory.sample(32)
        loss, td = agent.learn(batch, memory.size, beta)
        memory.update(idx, td)
        if it % 15 == 0:
            agent.sync_target()
            print(f"it {it} loss {loss.item():.4f} beta {beta:.2f} eps {eps:.2f}")


if __name__ == "__main__":
    main()
