"""Double DQN with prioritized replay; the replay memory lives on the device."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

NUM_ENVS = 8
OBS = 4
ACTIONS = 3
CAPACITY = 2048
BATCH = 32
WARMUP = 12
STEPS = 24
GAMMA = 0.97
TARGET_EVERY = 6


class MountainCar:
    """A batch of mountain cars stepped in lockstep with numpy."""

    def __init__(self, num, rng):
        self.num, self.rng = num, rng
        self.pos = rng.uniform(-0.6, -0.4, num)
        self.vel = np.zeros(num)
        self.age = np.zeros(num)

    def observe(self):
        height = np.sin(3 * self.pos)
        return np.stack([self.pos, 10 * self.vel, height, self.age / 200], 1).astype(np.float32)

    def step(self, action):
        self.vel = np.clip(self.vel + 0.001 * (action - 1) - 0.0025 * np.cos(3 * self.pos), -0.07, 0.07)
        self.pos = np.clip(self.pos + self.vel, -1.2, 0.6)
        self.age += 1
        done = (self.pos >= 0.5) | (self.age >= 200)
        reward = np.abs(self.vel) * 10 + (self.pos >= 0.5) * 10.0
        following = self.observe()
        if done.any():
            self.pos[done] = self.rng.uniform(-0.6, -0.4, done.sum())
            self.vel[done] = 0
            self.age[done] = 0
        return following, reward.astype(np.float32), done.astype(np.float32)


class PrioritizedReplay:
    def __init__(self, capacity, device, alpha=0.6, beta_start=0.4, beta_steps=400, eps=1e-3):
        self.capacity, self.device = capacity, device
        self.alpha, self.eps = alpha, eps
        self.beta_start, self.beta_steps = beta_start, beta_steps
        self.obs = torch.zeros(capacity, OBS, device=device)
        self.next_obs = torch.zeros(capacity, OBS, device=device)
        self.action = torch.zeros(capacity, dtype=torch.long, device=device)
        self.reward = torch.zeros(capacity, device=device)
        self.done = torch.zeros(capacity, device=device)
        self.priority = torch.zeros(capacity, device=device)
        self.ptr = 0
        self.size = 0

    def add(self, obs, action, reward, next_obs, done):
        n = len(obs)
        slots = (torch.arange(self.ptr, self.ptr + n) % self.capacity).to(self.device)
        for store, value in ((self.obs, obs), (self.action, action), (self.reward, reward),
                             (self.next_obs, next_obs), (self.done, done)):
            store.index_copy_(0, slots, torch.as_tensor(value).to(self.device))
        top = self.priority.max().clamp(min=0.1)
        self.priority.index_copy_(0, slots, top.expand(n))
        self.ptr = (self.ptr + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def beta(self, step):
        frac = min(1.0, step / self.beta_steps)
        return self.beta_start + frac * (1.0 - self.beta_start)

    def sample(self, batch_size, step):
        scaled = self.priority ** self.alpha
        prob = scaled / scaled.sum()
        index = torch.multinomial(prob, batch_size, replacement=True)
        weight = (prob[index] * self.size) ** -self.beta(step)
        weight = weight / weight.max()
        batch = (self.obs[index], self.action[index], self.reward[index],
                 self.next_obs[index], self.done[index])
        return batch, index, weight

    def update(self, index, td_error):
        self.priority[index] = td_error.detach().abs() + self.eps


class DuelingQ(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.value = nn.Linear(hidden, 1)
        self.advantage = nn.Linear(hidden, ACTIONS)

    def forward(self, x):
        h = self.body(x)
        adv = self.advantage(h)
        return self.value(h) + adv - adv.mean(dim=1, keepdim=True)


@torch.no_grad()
def act(net, obs, epsilon, rng, device):
    greedy = net(torch.from_numpy(obs).to(device)).argmax(dim=1).cpu().numpy()
    explore = rng.random(len(obs)) < epsilon
    return np.where(explore, rng.integers(0, ACTIONS, len(obs)), greedy)


def main():
    torch.manual_seed(17)
    rng = np.random.default_rng(17)
    device = torch_xla.device()
    env = MountainCar(NUM_ENVS, rng)
    replay = PrioritizedReplay(CAPACITY, device)
    net = DuelingQ().to(device)
    target = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=5e-4)
    torch_xla.sync()

    obs = env.observe()
    for step in range(-WARMUP, STEPS):
        epsilon = 1.0 if step < 0 else max(0.05, 1.0 - step / STEPS)
        action = act(net, obs, epsilon, rng, device)
        next_obs, reward, done = env.step(action)
        replay.add(obs, action, reward, next_obs, done)
        obs = next_obs
        torch_xla.sync()
        if step < 0:
            continue

        (s, a, r, s2, d), index, weight = replay.sample(BATCH, step)
        with torch.no_grad():
            best = net(s2).argmax(dim=1, keepdim=True)
            backup = r + GAMMA * (1 - d) * target(s2).gather(1, best).squeeze(1)
        q = net(s).gather(1, a.unsqueeze(1)).squeeze(1)
        loss = (weight * F.smooth_l1_loss(q, backup, reduction="none")).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        replay.update(index, backup - q)
        torch_xla.sync()

        if (step + 1) % TARGET_EVERY == 0:
            target.load_state_dict(net.state_dict())
            print(f"step {step + 1} replay {replay.size} loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
