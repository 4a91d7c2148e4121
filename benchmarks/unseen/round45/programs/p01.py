"""Double DQN for battery dispatch: 32 simulated sites, one shared policy."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 11
N_SITES = 32
OBS_DIM = 7
N_ACTIONS = 3          # charge, hold, discharge
CAPACITY = 4096
BATCH = 128
GAMMA = 0.97
ITERATIONS = 26
LEARN_START = 4


class DispatchEnv:
    """Vectorised battery/price simulator, plain numpy."""

    def __init__(self, n, rng):
        self.n, self.rng = n, rng
        self.soc = rng.uniform(0.2, 0.8, n)
        self.hour = rng.integers(0, 24, n)
        self.price = rng.uniform(20, 60, n)

    def observe(self):
        ang = 2 * np.pi * self.hour / 24
        load = 0.5 + 0.3 * np.sin(ang - 1.0)
        solar = np.clip(np.sin(ang - np.pi / 2), 0, None)
        return np.stack([self.soc, self.price / 100, np.sin(ang), np.cos(ang),
                         load, solar, self.soc * self.price / 100], 1).astype(np.float32)

    def step(self, action):
        flow = (1 - action) * 0.1
        new_soc = np.clip(self.soc + flow, 0, 1)
        moved = new_soc - self.soc
        reward = -moved * self.price / 10 - 0.05 * np.abs(flow - moved)
        self.soc = new_soc
        self.hour = (self.hour + 1) % 24
        base = 40 + 25 * np.sin(2 * np.pi * (self.hour - 8) / 24)
        self.price = 0.7 * self.price + 0.3 * base + self.rng.normal(0, 3, self.n)
        done = (self.hour == 0).astype(np.float32)
        return self.observe(), reward.astype(np.float32), done


class DuelingQ(nn.Module):
    def __init__(self, obs_dim, n_actions, width=48):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, width), nn.SiLU(),
                                   nn.Linear(width, width), nn.SiLU())
        self.value = nn.Linear(width, 1)
        self.adv = nn.Linear(width, n_actions)

    def forward(self, x):
        h = self.trunk(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


class TransitionStore:
    """Ring buffer that lives on the accelerator so sampling needs no transfer."""

    def __init__(self, capacity, obs_dim, device):
        self.capacity, self.device = capacity, device
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.next_obs = torch.zeros(capacity, obs_dim, device=device)
        self.action = torch.zeros(capacity, dtype=torch.long, device=device)
        self.reward = torch.zeros(capacity, device=device)
        self.done = torch.zeros(capacity, device=device)
        self.head = 0
        self.filled = 0

    def add(self, obs, action, reward, next_obs, done):
        n = obs.shape[0]
        lo, hi = self.head, self.head + n
        self.obs[lo:hi] = torch.from_numpy(obs).to(self.device)
        self.next_obs[lo:hi] = torch.from_numpy(next_obs).to(self.device)
        self.action[lo:hi] = torch.from_numpy(action).to(self.device)
        self.reward[lo:hi] = torch.from_numpy(reward).to(self.device)
        self.done[lo:hi] = torch.from_numpy(done).to(self.device)
        self.head = hi % self.capacity
        self.filled = min(self.filled + n, self.capacity)

    def sample(self, batch, rng):
        idx = torch.from_numpy(rng.integers(0, self.filled, batch)).to(self.device)
        return (self.obs[idx], self.action[idx], self.reward[idx],
                self.next_obs[idx], self.done[idx])


def td_loss(online, target, batch):
    obs, action, reward, next_obs, done = batch
    q = online(obs).gather(1, action[:, None]).squeeze(1)
    with torch.no_grad():
        best = online(next_obs).argmax(1, keepdim=True)
        boot = target(next_obs).gather(1, best).squeeze(1)
        goal = reward + GAMMA * (1 - done) * boot
    return F.smooth_l1_loss(q, goal)


@torch.no_grad()
def polyak(target, online, tau):
    for t, o in zip(target.parameters(), online.parameters()):
        t.mul_(1 - tau).add_(o, alpha=tau)


def main():
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    device = torch_xla.device()

    env = DispatchEnv(N_SITES, rng)
    online = DuelingQ(OBS_DIM, N_ACTIONS).to(device)
    target = copy.deepcopy(online)
    opt = torch.optim.AdamW(online.parameters(), lr=3e-4, weight_decay=1e-3)
    store = TransitionStore(CAPACITY, OBS_DIM, device)
    xm.mark_step()

    obs = env.observe()
    earned = 0.0
    for it in range(ITERATIONS):
        eps = max(0.05, 0.9 - it * 0.04)
        with torch.no_grad():
            greedy = online(torch.from_numpy(obs).to(device)).argmax(1).cpu().numpy()
        explore = rng.random(N_SITES) < eps
        action = np.where(explore, rng.integers(0, N_ACTIONS, N_SITES), greedy)
        next_obs, reward, done = env.step(action)
        store.add(obs, action, reward, next_obs, done)
        obs = next_obs
        earned += float(reward.mean())

        loss = None
        if it >= LEARN_START:
            loss = td_loss(online, target, store.sample(BATCH, rng))
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(online.parameters(), 5.0)
            opt.step()
            polyak(target, online, 0.01)
        xm.mark_step()

        if loss is not None and it % 8 == 7:
            print(f"it {it:3d} eps {eps:.2f} td {loss.item():.4f} return {earned:.3f}")


if __name__ == "__main__":
    main()
