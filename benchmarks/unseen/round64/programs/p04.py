"""Double DQN on a batch of small grid worlds, replay kept on the accelerator."""
import argparse
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class GridWorld:
    """n parallel 6x6 grids; reach the goal, -0.02 per move, reset on goal or timeout."""
    MOVES = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])

    def __init__(self, n, size=6, limit=30, seed=0):
        self.n, self.size, self.limit = n, size, limit
        self.rng = np.random.RandomState(seed)
        self.pos = self.rng.randint(0, size, (n, 2))
        self.goal = self.rng.randint(0, size, (n, 2))
        self.age = np.zeros(n, dtype=int)

    def observe(self):
        scale = self.size - 1
        return np.concatenate([self.pos, self.goal, self.goal - self.pos], 1).astype("float32") / scale

    def step(self, actions):
        self.pos = np.clip(self.pos + self.MOVES[actions], 0, self.size - 1)
        self.age += 1
        hit = (self.pos == self.goal).all(1)
        done = hit | (self.age >= self.limit)
        reward = np.where(hit, 1.0, -0.02).astype("float32")
        next_obs = self.observe()
        k = int(done.sum())
        if k:
            self.pos[done] = self.rng.randint(0, self.size, (k, 2))
            self.goal[done] = self.rng.randint(0, self.size, (k, 2))
            self.age[done] = 0
        return next_obs, reward, done.astype("float32")


class DeviceReplay:
    def __init__(self, capacity, obs_dim, device):
        self.capacity = capacity
        self.device = device
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.next_obs = torch.zeros(capacity, obs_dim, device=device)
        self.action = torch.zeros(capacity, dtype=torch.long, device=device)
        self.reward = torch.zeros(capacity, device=device)
        self.done = torch.zeros(capacity, device=device)
        self.ptr, self.size = 0, 0

    def add(self, obs, action, reward, next_obs, done):
        n = obs.shape[0]
        rows = slice(self.ptr, self.ptr + n)
        self.obs[rows] = torch.from_numpy(obs).to(self.device)
        self.action[rows] = torch.from_numpy(action).to(self.device)
        self.reward[rows] = torch.from_numpy(reward).to(self.device)
        self.next_obs[rows] = torch.from_numpy(next_obs).to(self.device)
        self.done[rows] = torch.from_numpy(done).to(self.device)
        self.ptr = (self.ptr + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, batch, rng):
        idx = torch.from_numpy(rng.randint(0, self.size, batch)).to(self.device)
        return self.obs[idx], self.action[idx], self.reward[idx], self.next_obs[idx], self.done[idx]


class DuelingQ(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden=48):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.value = nn.Linear(hidden, 1)
        self.adv = nn.Linear(hidden, n_actions)

    def forward(self, x):
        h = self.trunk(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


class Agent:
    def __init__(self, device, obs_dim=6, n_actions=4, gamma=0.97, tau=0.02):
        self.device, self.gamma, self.tau, self.n_actions = device, gamma, tau, n_actions
        self.q = DuelingQ(obs_dim, n_actions).to(device)
        self.target = copy.deepcopy(self.q).requires_grad_(False)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=1e-3)

    @torch.no_grad()
    def act(self, obs, eps, rng):
        q = self.q(torch.from_numpy(obs).to(self.device))
        greedy = q.argmax(1).cpu().numpy()
        explore = rng.rand(len(greedy)) < eps
        return np.where(explore, rng.randint(0, self.n_actions, len(greedy)), greedy)

    def learn(self, batch):
        obs, action, reward, next_obs, done = batch
        q = self.q(obs).gather(1, action[:, None]).squeeze(1)
        with torch.no_grad():
            best = self.q(next_obs).argmax(1, keepdim=True)
            boot = self.target(next_obs).gather(1, best).squeeze(1)
            y = reward + self.gamma * (1 - done) * boot
        loss = F.smooth_l1_loss(q, y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for p, tp in zip(self.q.parameters(), self.target.parameters()):
                tp.lerp_(p, self.tau)
        return loss.detach()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=45)
    ap.add_argument("--envs", type=int, default=8)
    ap.add_argument("--capacity", type=int, default=4096)
    ap.add_argument("--batch", type=int, default=32)
    args = ap.parse_args()

    torch.manual_seed(5)
    rng = np.random.RandomState(5)
    device = torch_xla.device()
    env = GridWorld(args.envs, seed=5)
    agent = Agent(device)
    replay = DeviceReplay(args.capacity, 6, device)

    obs = env.observe()
    returns = 0.0
    for step in range(args.steps):
        eps = max(0.1, 1.0 - step / 40)
        action = agent.act(obs, eps, rng)
        next_obs, reward, done = env.step(action)
        replay.add(obs, action, reward, next_obs, done)
        obs = env.observe()
        returns += float(reward.mean())

        loss = agent.learn(replay.sample(args.batch, rng))
        torch_xla.sync()
        if (step + 1) % 20 == 0:
            print(f"step {step + 1}: td loss {loss.item():.4f}, mean reward {returns / (step + 1):+.3f}, eps {eps:.2f}")


if __name__ == "__main__":
    main()
