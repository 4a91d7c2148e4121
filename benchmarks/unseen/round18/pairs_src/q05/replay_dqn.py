"""Double DQN with prioritised replay for the warehouse-routing simulator."""
import random

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

OBS, ACTIONS, BATCH, GAMMA = 10, 5, 8, 0.97


class Dueling(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(OBS, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU())
        self.value = nn.Linear(hidden, 1)
        self.adv = nn.Linear(hidden, ACTIONS)

    def forward(self, obs):
        h = self.trunk(obs)
        adv = self.adv(h)
        return self.value(h) + adv - adv.mean(1, keepdim=True)


class Replay:
    def __init__(self, size, alpha=0.6):
        rng = np.random.default_rng(2)
        self.obs = rng.normal(size=(size, OBS)).astype(np.float32)
        self.nxt = rng.normal(size=(size, OBS)).astype(np.float32)
        self.act = rng.integers(ACTIONS, size=size)
        self.rew = rng.normal(size=size).astype(np.float32)
        self.done = (rng.random(size) < 0.1).astype(np.float32)
        self.prio = np.ones(size, np.float32)
        self.alpha, self.rng = alpha, rng

    def sample(self, n):
        p = self.prio ** self.alpha
        p = p / p.sum()
        idx = self.rng.choice(len(p), n, p=p)
        fields = (self.obs, self.act, self.rew, self.nxt, self.done)
        rows = [torch.from_numpy(np.ascontiguousarray(f[idx])) for f in fields]
        return idx, rows, torch.from_numpy((p[idx] * len(p)).astype(np.float32))


class LinearSchedule:
    def __init__(self, start, end, steps):
        self.start, self.end, self.steps = start, end, steps

    def __call__(self, t):
        frac = min(t / self.steps, 1.0)
        return self.start + frac * (self.end - self.start)


class Agent:
    def __init__(self, device):
        self.online, self.target = Dueling().to(device), Dueling().to(device)
        self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.Adam(self.online.parameters(), lr=1e-3, eps=1.5e-4)
        self.device = device

    def learn(self, rows, prob, beta):
        obs, act, rew, nxt, done = (r.to(self.device) for r in rows)
        weight = prob.to(self.device).reciprocal() * beta + (1.02 - beta)
        weight = weight / weight.max()
        with torch.no_grad():
            best = self.online(nxt).argmax(1, keepdim=True)
            goal = rew + GAMMA * (1 - done) * self.target(nxt).gather(1, best).squeeze(1)
        q = self.online(obs).gather(1, act[:, None]).squeeze(1)
        td = goal - q
        loss = (weight * nn.functional.smooth_l1_loss(q, goal, reduction="none")).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for t, o in zip(self.target.parameters(), self.online.parameters()):
                t.lerp_(o, 0.01)
        return td.detach().abs()


def main(updates=6):
    torch.manual_seed(4)
    random.seed(4)
    device = xm.xla_device()
    agent, replay = Agent(device), Replay(256)
    beta = LinearSchedule(0.4, 1.0, 4)
    torch_xla.sync()
    for t in range(updates):
        idx, rows, prob = replay.sample(BATCH)
        td = agent.learn(rows, prob, beta(t))
        torch_xla.sync()
        replay.prio[idx] = td.cpu().numpy() + 1e-3
    print("mean priority", replay.prio.mean())


if __name__ == "__main__":
    main()
