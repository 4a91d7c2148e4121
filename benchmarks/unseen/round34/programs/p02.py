"""Prioritised replay on a toy corridor task: double DQN.

The replay memory lives on the device so that sampling needs no transfer.
"""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

SEED = 11
OBS, ACTIONS = 6, 3


class Corridor:
    """Walk right to the goal; wind pushes back, the middle action holds."""

    def __init__(self, rng, length=12):
        self.rng, self.length = rng, length
        self.reset()

    def reset(self):
        self.pos, self.t = 0.0, 0
        self.wind = self.rng.normal(0, 0.3, size=3)
        return self._obs()

    def _obs(self):
        return np.array([self.pos / self.length, self.t / 40.0, 1.0, *self.wind],
                        dtype=np.float32)

    def step(self, a):
        self.pos = max(0.0, self.pos + (a - 1) - float(self.wind[self.t % 3]))
        self.t += 1
        done = self.pos >= self.length or self.t >= 40
        reward = 1.0 if self.pos >= self.length else -0.02
        return self._obs(), reward, done


class QNet(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(OBS, hidden), nn.SiLU())
        self.head = nn.Linear(hidden, ACTIONS)

    def forward(self, x):
        return self.head(self.body(x))


class PrioritizedReplay:
    def __init__(self, capacity, device, alpha=0.6):
        self.capacity, self.alpha, self.device = capacity, alpha, device
        self.pos = 0
        self.size = 0
        self.obs = torch.zeros(capacity, OBS, device=device)
        self.next_obs = torch.zeros(capacity, OBS, device=device)
        self.action = torch.zeros(capacity, dtype=torch.long, device=device)
        self.reward = torch.zeros(capacity, device=device)
        self.done = torch.zeros(capacity, device=device)
        self.prio = torch.zeros(capacity, device=device)

    def extend(self, rows):
        n = len(rows)
        slots = (torch.arange(n) + self.pos) % self.capacity
        slots = slots.to(self.device)
        o, a, r, o2, d = (np.asarray(c) for c in zip(*rows))
        self.obs[slots] = torch.from_numpy(o).to(self.device)
        self.next_obs[slots] = torch.from_numpy(o2).to(self.device)
        self.action[slots] = torch.from_numpy(a).to(self.device)
        self.reward[slots] = torch.from_numpy(r.astype(np.float32)).to(self.device)
        self.done[slots] = torch.from_numpy(d.astype(np.float32)).to(self.device)
        self.prio[slots] = self.prio.max().clamp(min=1.0)
        self.pos = (self.pos + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def sample(self, batch, beta):
        p = self.prio[:self.size] ** self.alpha
        p = p / p.sum()
        idx = torch.multinomial(p, batch, replacement=True)
        w = (p[idx] * self.size).pow(-beta)
        w = w / w.max()
        return idx, w, (self.obs[idx], self.action[idx], self.reward[idx],
                        self.next_obs[idx], self.done[idx])

    def update(self, idx, td):
        self.prio[idx] = td.abs() + 1e-3


def collect(env, obs, policy, n, eps, rng):
    rows = []
    for _ in range(n):
        if rng.random() < eps:
            a = int(rng.integers(ACTIONS))
        else:
            with torch.no_grad():
                a = int(policy(torch.from_numpy(obs)[None]).argmax())
        nxt, r, d = env.step(a)
        rows.append((obs, a, r, nxt, d))
        obs = env.reset() if d else nxt
    return rows, obs


def main(updates=18, per_update=16, batch=32, gamma=0.97, tau=0.02):
    torch.manual_seed(SEED)
    rng = np.random.default_rng(SEED)
    device = torch_xla.device()

    online = QNet().to(device)
    target = copy.deepcopy(online).requires_grad_(False)
    actor = QNet()                      # host copy, refreshed now and then
    opt = torch.optim.Adam(online.parameters(), lr=2e-3)
    memory = PrioritizedReplay(4096, device)
    env = Corridor(rng)
    obs = env.reset()

    for step in range(updates):
        eps = max(0.05, 1.0 - step / 12)
        rows, obs = collect(env, obs, actor, per_update, eps, rng)
        memory.extend(rows)

        idx, w, (o, a, r, o2, d) = memory.sample(batch, beta=0.5)
        with torch.no_grad():
            best = online(o2).argmax(-1, keepdim=True)
            boot = target(o2).gather(1, best).squeeze(1)
            y = r + gamma * (1.0 - d) * boot
        q = online(o).gather(1, a[:, None]).squeeze(1)
        td = y - q
        loss = (w * F.smooth_l1_loss(q, y, reduction="none")).mean()
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(online.parameters(), 1.0)
        xm.optimizer_step(opt)
        with torch.no_grad():
            memory.update(idx, td)
            for pt, po in zip(target.parameters(), online.parameters()):
                pt.lerp_(po, tau)
        xm.mark_step()

        if step % 6 == 5:
            actor.load_state_dict({k: v.cpu() for k, v in online.state_dict().items()})
            print(f"update {step + 1} loss {loss.item():.4f} eps {eps:.2f} "
                  f"stored {memory.size}")


if __name__ == "__main__":
    main()
