"""Double DQN on a vectorised battery-dispatch environment.

The replay memory lives on the accelerator so that sampling needs no transfer.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_ENVS = 8
OBS_DIM = 6
N_ACTIONS = 3
CAPACITY = 1024
BATCH = 32
WARMUP = 4
STEPS = 32
GAMMA = 0.97
TAU = 0.02


class BatteryEnv:
    """Charge / hold / discharge against a noisy daily price curve."""

    def __init__(self, n, seed):
        self.rng = np.random.default_rng(seed)
        self.n = n
        self.reset()

    def reset(self):
        self.soc = self.rng.uniform(0.2, 0.8, self.n)
        self.hour = self.rng.integers(0, 24, self.n).astype(np.float64)
        self.noise = self.rng.normal(0, 0.1, self.n)
        return self.observe()

    def price(self):
        return 0.5 + 0.3 * np.sin(2 * np.pi * self.hour / 24) + self.noise

    def observe(self):
        a = 2 * np.pi * self.hour / 24
        obs = np.stack([self.soc, np.sin(a), np.cos(a), self.price(),
                        self.noise, np.ones(self.n)], 1)
        return obs.astype(np.float32)

    def step(self, action):
        delta = (action - 1) * 0.1
        new = np.clip(self.soc + delta, 0, 1)
        reward = -(new - self.soc) * self.price() * 10
        self.soc = new
        self.hour += 1
        done = self.hour >= 24
        self.hour = np.where(done, 0, self.hour)
        self.noise = 0.8 * self.noise + self.rng.normal(0, 0.05, self.n)
        return self.observe(), reward.astype(np.float32), done.astype(np.float32)


class DeviceReplay:
    def __init__(self, capacity, obs_dim, device, seed=0):
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.next_obs = torch.zeros(capacity, obs_dim, device=device)
        self.action = torch.zeros(capacity, dtype=torch.long, device=device)
        self.reward = torch.zeros(capacity, device=device)
        self.done = torch.zeros(capacity, device=device)
        self.capacity, self.device = capacity, device
        self.head = 0
        self.size = 0
        self.rng = np.random.default_rng(seed)

    def push(self, obs, action, reward, next_obs, done):
        n = len(obs)
        end = self.head + n
        for store, value in ((self.obs, obs), (self.next_obs, next_obs),
                             (self.action, action), (self.reward, reward),
                             (self.done, done)):
            store[self.head:end] = torch.from_numpy(value).to(self.device)
        self.head = end % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, batch):
        idx = torch.from_numpy(self.rng.integers(0, self.size, batch)).to(self.device)
        return (self.obs[idx], self.action[idx], self.reward[idx],
                self.next_obs[idx], self.done[idx])


class QNet(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(OBS_DIM, hidden), nn.ReLU())
        self.value = nn.Linear(hidden, 1)
        self.adv = nn.Linear(hidden, N_ACTIONS)

    def forward(self, x):
        h = self.trunk(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


@torch.no_grad()
def select_action(net, obs, eps, rng, device):
    q = net(torch.from_numpy(obs).to(device)).cpu().numpy()
    explore = rng.random(len(obs)) < eps
    return np.where(explore, rng.integers(0, N_ACTIONS, len(obs)), q.argmax(1))


def td_loss(online, target, batch):
    obs, action, reward, next_obs, done = batch
    q = online(obs).gather(1, action.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        best = online(next_obs).argmax(1, keepdim=True)
        nxt = target(next_obs).gather(1, best).squeeze(1)
        y = reward + GAMMA * (1 - done) * nxt
    return F.smooth_l1_loss(q, y)


@torch.no_grad()
def soft_update(target, online):
    for pt, p in zip(target.parameters(), online.parameters()):
        pt.mul_(1 - TAU).add_(p, alpha=TAU)


def main():
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    device = xm.xla_device()
    env = BatteryEnv(N_ENVS, seed=4)
    online, target = QNet().to(device), QNet().to(device)
    target.load_state_dict(online.state_dict())
    target.requires_grad_(False)
    opt = torch.optim.RMSprop(online.parameters(), lr=5e-4)
    memory = DeviceReplay(CAPACITY, OBS_DIM, device)

    obs = env.reset()
    returns = 0.0
    for step in range(STEPS):
        eps = max(0.05, 1.0 - step / 20)
        action = select_action(online, obs, eps, rng, device).astype(np.int64)
        next_obs, reward, done = env.step(action)
        memory.push(obs, action, reward, next_obs, done)
        returns = 0.9 * returns + 0.1 * float(reward.mean())
        obs = next_obs
        if step >= WARMUP:
            loss = td_loss(online, target, memory.sample(BATCH))
            opt.zero_grad()
            loss.backward()
            opt.step()
            soft_update(target, online)
        xm.mark_step()
        if step >= WARMUP and (step + 1) % 8 == 0:
            print(f"step {step + 1} loss {loss.item():.4f} reward {returns:+.3f} eps {eps:.2f}")


if __name__ == "__main__":
    main()
