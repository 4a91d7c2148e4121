"""Double DQN for a battery dispatch problem; replay memory lives on the accelerator."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

OBS_DIM = 5
ACTIONS = 3  # discharge, hold, charge


class BatteryFleet:
    """Vectorised toy market: price follows a daily cycle, each battery has limited charge."""

    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.soc = self.rng.uniform(0.2, 0.8, self.n)
        self.t = self.rng.integers(0, 24, self.n).astype(np.float64)
        self.noise = np.zeros(self.n)
        return self._obs()

    def _price(self):
        return 0.5 + 0.4 * np.sin(2 * np.pi * (self.t - 7) / 24) + self.noise

    def _obs(self):
        ang = 2 * np.pi * self.t / 24
        return np.stack([self.soc, self._price(), np.sin(ang), np.cos(ang), self.noise], 1).astype(np.float32)

    def step(self, action):
        want = 0.15 * (action - 1)
        moved = np.clip(self.soc + want, 0.0, 1.0) - self.soc
        reward = -moved * self._price() - 0.01 * np.abs(want - moved)
        self.soc = self.soc + moved
        self.t = (self.t + 1) % 24
        self.noise = 0.8 * self.noise + 0.05 * self.rng.normal(size=self.n)
        done = self.rng.random(self.n) < 0.02
        self.soc[done] = self.rng.uniform(0.2, 0.8, int(done.sum()))
        return self._obs(), reward.astype(np.float32), done.astype(np.float32)


class ReplayMemory:
    """Ring of vector transitions: slot s holds one transition of every environment."""

    def __init__(self, slots, n_env, device):
        self.slots, self.n_env, self.device = slots, n_env, device
        self.obs = torch.zeros(slots, n_env, OBS_DIM, device=device)
        self.next_obs = torch.zeros(slots, n_env, OBS_DIM, device=device)
        self.action = torch.zeros(slots, n_env, dtype=torch.long, device=device)
        self.reward = torch.zeros(slots, n_env, device=device)
        self.done = torch.zeros(slots, n_env, device=device)
        self.cursor = 0
        self.filled = 0

    def add(self, obs, action, reward, next_obs, done):
        slot = self.cursor
        self.obs[slot] = obs
        self.action[slot] = action
        self.reward[slot] = reward
        self.next_obs[slot] = next_obs
        self.done[slot] = done
        self.cursor = (slot + 1) % self.slots
        self.filled = min(self.filled + 1, self.slots)

    def sample(self, batch, rng):
        flat = rng.integers(0, self.filled * self.n_env, size=batch)
        idx = torch.from_numpy(flat).to(self.device)
        take = lambda buf: buf.flatten(0, 1).index_select(0, idx)
        return take(self.obs), take(self.action), take(self.reward), take(self.next_obs), take(self.done)


class DuelingQ(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS_DIM, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU())
        self.value = nn.Linear(hidden, 1)
        self.adv = nn.Linear(hidden, ACTIONS)

    def forward(self, obs):
        h = self.body(obs)
        a = self.adv(h)
        return self.value(h) + a - a.mean(dim=-1, keepdim=True)


def td_loss(online, target, batch, gamma=0.97):
    obs, action, reward, next_obs, done = batch
    q = online(obs).gather(1, action.unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        best = online(next_obs).argmax(dim=-1, keepdim=True)
        boot = target(next_obs).gather(1, best).squeeze(1)
        y = reward + gamma * (1.0 - done) * boot
    return F.smooth_l1_loss(q, y)


def main(steps=60, n_env=8, batch=32, warmup=8, tau=0.02):
    torch.manual_seed(5)
    rng = np.random.default_rng(5)
    device = torch_xla.device()

    env = BatteryFleet(n_env, seed=6)
    online = DuelingQ().to(device)
    target = DuelingQ().to(device)
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), lr=3e-3)
    memory = ReplayMemory(2048, n_env, device)
    torch_xla.sync()

    obs = env.reset()
    returns = []
    for step in range(steps):
        obs_dev = torch.from_numpy(obs).to(device)
        with torch.no_grad():
            greedy = online(obs_dev).argmax(dim=-1).cpu().numpy()
        eps = max(0.05, 1.0 - step / 30)
        explore = rng.random(n_env) < eps
        action = np.where(explore, rng.integers(0, ACTIONS, n_env), greedy)

        next_obs, reward, done = env.step(action)
        returns.append(reward.mean())
        memory.add(
            obs_dev,
            torch.from_numpy(action).to(device),
            torch.from_numpy(reward).to(device),
            torch.from_numpy(next_obs).to(device),
            torch.from_numpy(done).to(device),
        )
        obs = next_obs
        torch_xla.sync()

        if memory.filled >= warmup:
            loss = td_loss(online, target, memory.sample(batch, rng))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(online.parameters(), 5.0)
            optimizer.step()
            with torch.no_grad():
                for pt, p in zip(target.parameters(), online.parameters()):
                    pt.lerp_(p, tau)
            torch_xla.sync()

        if (step + 1) % 15 == 0:
            print(f"step {step + 1:3d} eps {eps:.2f} reward {np.mean(returns[-15:]):+.4f} td {loss.item():.5f}")


if __name__ == "__main__":
    main()
