import copy
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

# Dueling double DQN with prioritized replay on vectorised environments.
ENVS, OBS, ACTIONS = 8, 4, 3
CAPACITY, BATCH = 1024, 64
STEPS, LEARN_AFTER = 48, 4
GAMMA, N_HID = 0.97, 48
TARGET_EVERY = 8


class VecMountain:
    """A vectorised valley: push left / coast / push right until the rim is reached."""

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.n = n
        self.x = self.rng.uniform(-0.6, -0.4, n)
        self.v = np.zeros(n)
        self.age = np.zeros(n)

    def obs(self):
        o = np.stack([self.x, 10 * self.v, np.cos(3 * self.x), np.sin(3 * self.x)], 1)
        return o.astype(np.float32)

    def step(self, a):
        self.v = np.clip(self.v + (a - 1) * 0.004 - 0.0025 * np.cos(3 * self.x), -0.07, 0.07)
        self.x = np.clip(self.x + self.v, -1.2, 0.6)
        self.age += 1
        nxt, goal = self.obs(), self.x >= 0.5
        over = goal | (self.age >= 40)
        reward = np.where(goal, 1.0, 20 * np.abs(self.v) - 0.1).astype(np.float32)
        self.x = np.where(over, self.rng.uniform(-0.6, -0.4, self.n), self.x)
        self.v = np.where(over, 0.0, self.v)
        self.age = np.where(over, 0, self.age)
        return nxt, reward, goal.astype(np.float32)


class PrioritizedReplay:
    def __init__(self, device, alpha=0.6):
        self.device = device
        self.alpha = alpha
        self.obs = torch.zeros(CAPACITY, OBS, device=device)
        self.nxt = torch.zeros(CAPACITY, OBS, device=device)
        self.act = torch.zeros(CAPACITY, dtype=torch.long, device=device)
        self.rew = torch.zeros(CAPACITY, device=device)
        self.done = torch.zeros(CAPACITY, device=device)
        self.prio = torch.zeros(CAPACITY, device=device)
        self.top = torch.ones((), device=device)
        self.head = 0
        self.size = 0

    def push(self, obs, act, rew, nxt, done):
        lo, hi = self.head, self.head + ENVS
        for store, value in ((self.obs, obs), (self.act, act), (self.rew, rew),
                             (self.nxt, nxt), (self.done, done)):
            store[lo:hi] = torch.from_numpy(value).to(self.device)
        self.prio[lo:hi] = self.top
        self.head = hi % CAPACITY
        self.size = min(self.size + ENVS, CAPACITY)

    def sample(self, beta):
        p = self.prio ** self.alpha
        p = p / p.sum()
        idx = torch.multinomial(p, BATCH, replacement=True)
        w = (self.size * p[idx]) ** -beta
        return idx, w / w.max()

    def update(self, idx, td):
        td = td.abs() + 1e-3
        self.prio.index_copy_(0, idx, td)
        self.top = torch.maximum(self.top, td.max())


class Dueling(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, N_HID), nn.ReLU(), nn.Linear(N_HID, N_HID), nn.ReLU())
        self.value = nn.Linear(N_HID, 1)
        self.adv = nn.Linear(N_HID, ACTIONS)

    def forward(self, x):
        h = self.body(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


def learn(online, target, opt, replay, beta):
    idx, weights = replay.sample(beta)
    with torch.no_grad():
        best = online(replay.nxt[idx]).argmax(1, keepdim=True)
        boot = target(replay.nxt[idx]).gather(1, best).squeeze(1)
        goal = replay.rew[idx] + GAMMA * (1 - replay.done[idx]) * boot
    q = online(replay.obs[idx]).gather(1, replay.act[idx].unsqueeze(1)).squeeze(1)
    td = goal - q
    loss = (weights * td.pow(2)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    replay.update(idx, td.detach())
    return loss.detach()


def main():
    torch.manual_seed(2)
    device = torch_xla.device()
    xm.set_rng_state(2)
    env, rng = VecMountain(ENVS, seed=4), np.random.default_rng(6)
    online = Dueling().to(device)
    target = copy.deepcopy(online).requires_grad_(False)
    opt = torch.optim.Adam(online.parameters(), lr=2e-3)
    replay = PrioritizedReplay(device)
    torch_xla.sync()

    loss, total = torch.zeros((), device=device), 0.0
    for step in range(STEPS):
        eps = max(0.1, 1.0 - step / 30)
        obs = env.obs()
        with torch.no_grad():
            greedy = online(torch.from_numpy(obs).to(device)).argmax(1).cpu().numpy()
        act = np.where(rng.random(ENVS) < eps, rng.integers(0, ACTIONS, ENVS), greedy)
        nxt, rew, done = env.step(act)
        replay.push(obs, act, rew, nxt, done)
        total += float(rew.mean())
        if step >= LEARN_AFTER:
            loss = learn(online, target, opt, replay, beta=0.4 + 0.6 * step / STEPS)
        if step % TARGET_EVERY == 0:
            target.load_state_dict(online.state_dict())
        torch_xla.sync()
        if step % 8 == 7:
            print(f"step {step + 1} eps {eps:.2f} reward {total / 8:.3f} loss {loss.item():.4f}")
            total = 0.0


if __name__ == "__main__":
    main()
