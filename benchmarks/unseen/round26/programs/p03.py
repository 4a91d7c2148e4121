import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class VecPendulum:
    """N pendulums with three torques, stepped together in numpy."""

    def __init__(self, n, seed=0):
        self.n, self.rng = n, np.random.default_rng(seed)
        self.th = self.rng.uniform(-np.pi, np.pi, n)
        self.om = self.rng.uniform(-1, 1, n)
        self.t = np.zeros(n, dtype=int)

    def observe(self):
        return np.stack([np.cos(self.th), np.sin(self.th), self.om], 1).astype(np.float32)

    def step(self, action):
        u = (action - 1) * 2.0
        ang = (self.th + np.pi) % (2 * np.pi) - np.pi
        reward = -(ang ** 2 + 0.1 * self.om ** 2 + 0.001 * u ** 2)
        self.om = np.clip(self.om + (15 * np.sin(self.th) + 3 * u) * 0.05, -8, 8)
        self.th = self.th + self.om * 0.05
        self.t += 1
        done = self.t >= 50
        self.th[done] = self.rng.uniform(-np.pi, np.pi, done.sum())
        self.om[done] = 0
        self.t[done] = 0
        return self.observe(), reward.astype(np.float32), done.astype(np.float32)


class DeviceReplay:
    """Keeps the transitions on the accelerator so that sampling never touches the host."""

    def __init__(self, capacity, obs_dim, device):
        self.capacity, self.device = capacity, device
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.next_obs = torch.zeros(capacity, obs_dim, device=device)
        self.act = torch.zeros(capacity, dtype=torch.long, device=device)
        self.rew = torch.zeros(capacity, device=device)
        self.done = torch.zeros(capacity, device=device)
        self.pos, self.size = 0, 0

    def add(self, obs, act, rew, next_obs, done):
        n = obs.shape[0]
        rows = slice(self.pos, self.pos + n)
        self.obs[rows] = obs
        self.act[rows] = act
        self.rew[rows] = rew
        self.next_obs[rows] = next_obs
        self.done[rows] = done
        self.pos = (self.pos + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, batch_size):
        idx = torch.from_numpy(np.random.randint(0, self.size, batch_size)).to(self.device)
        return self.obs[idx], self.act[idx], self.rew[idx], self.next_obs[idx], self.done[idx]


def q_network():
    return nn.Sequential(nn.Linear(3, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 3))


def td_loss(q, q_target, batch, gamma):
    obs, act, rew, nxt, done = batch
    with torch.no_grad():
        best = q(nxt).argmax(1, keepdim=True)
        target = rew + gamma * (1 - done) * q_target(nxt).gather(1, best).squeeze(1)
    pred = q(obs).gather(1, act[:, None]).squeeze(1)
    return F.smooth_l1_loss(pred, target)


def main(n_envs=8, capacity=320, total=140, learn_after=6, sync_every=25, batch_size=64, gamma=0.97):
    np.random.seed(0)
    torch.manual_seed(0)
    device = torch_xla.device()
    env = VecPendulum(n_envs)
    q, q_target = q_network().to(device), q_network().to(device)
    q_target.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=1e-3)
    replay = DeviceReplay(capacity, 3, device)
    xm.mark_step()

    obs = env.observe()
    returns = []
    for step in range(total):
        eps = max(0.05, 1.0 - step / 80)
        obs_d = torch.from_numpy(obs).to(device)
        with torch.no_grad():
            greedy = q(obs_d).argmax(1).cpu().numpy()
        explore = np.random.rand(n_envs) < eps
        action = np.where(explore, np.random.randint(0, 3, n_envs), greedy)
        next_obs, rew, done = env.step(action)
        returns.append(rew.mean())

        replay.add(obs_d, torch.from_numpy(action).to(device), torch.from_numpy(rew).to(device),
                   torch.from_numpy(next_obs).to(device), torch.from_numpy(done).to(device))
        if step >= learn_after:
            opt.zero_grad()
            loss = td_loss(q, q_target, replay.sample(batch_size), gamma)
            loss.backward()
            opt.step()
        xm.mark_step()

        if step and step % sync_every == 0:
            q_target.load_state_dict(q.state_dict())
            xm.mark_step()
            print(f"step {step} reward {np.mean(returns[-25:]):.3f} td {loss.item():.4f} eps {eps:.2f}", flush=True)
        obs = next_obs


if __name__ == "__main__":
    main()
