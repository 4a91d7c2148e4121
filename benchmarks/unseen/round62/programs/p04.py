"""Double DQN with prioritised replay for a perishable-goods warehouse.

State: stock by age bucket plus recent demand. Action: order quantity.
The simulator and the replay memory live on the host, the learner on XLA.
"""
from collections import namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

Batch = namedtuple('Batch', 'obs act rew nxt done prob idx')

AGES = 4
OBS = AGES + 3
ORDERS = np.array([0, 2, 4, 6, 8])
GAMMA = 0.95
TAU = 0.02
BATCH = 32
UPDATES = 24
ENV_STEPS_PER_UPDATE = 4


class Warehouse:

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.reset()

    def reset(self):
        self.stock = self.rng.integers(0, 3, AGES)
        self.demand = np.full(3, 4)
        self.t = 0
        return self.obs()

    def obs(self):
        return np.concatenate([self.stock, self.demand]).astype(np.float32) / 8

    def step(self, a):
        season = 4 + 2 * np.sin(self.t / 7)
        want = int(self.rng.poisson(season))
        self.demand = np.roll(self.demand, 1)
        self.demand[0] = want
        sold = 0
        for age in reversed(range(AGES)):
            take = min(self.stock[age], want - sold)
            self.stock[age] -= take
            sold += take
        spoiled = self.stock[-1]
        self.stock = np.roll(self.stock, 1)
        self.stock[0] = ORDERS[a]
        self.t += 1
        reward = 1.0 * sold - 0.6 * ORDERS[a] - 0.3 * spoiled - 0.2 * (want - sold)
        return self.obs(), float(reward) / 4, self.t % 60 == 0


class Replay:

    def __init__(self, cap, alpha, seed):
        self.rng = np.random.default_rng(seed)
        self.cap, self.alpha = cap, alpha
        self.data = []
        self.prio = np.zeros(cap, np.float64)
        self.pos = 0

    def add(self, item):
        if len(self.data) < self.cap:
            self.data.append(item)
        else:
            self.data[self.pos] = item
        self.prio[self.pos] = self.prio.max() or 1.0
        self.pos = (self.pos + 1) % self.cap

    def sample(self, n):
        p = self.prio[:len(self.data)] ** self.alpha
        p /= p.sum()
        idx = self.rng.choice(len(p), n, p=p)
        obs, act, rew, nxt, done = map(np.array, zip(*(self.data[i] for i in idx)))
        return Batch(obs, act, rew.astype(np.float32), nxt,
                     done.astype(np.float32), p[idx].astype(np.float32), idx)

    def update(self, idx, td):
        self.prio[idx] = np.abs(td) + 1e-3

    def __len__(self):
        return len(self.data)


class QNet(nn.Module):

    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(OBS, 48), nn.ReLU())
        self.value = nn.Linear(48, 1)
        self.adv = nn.Linear(48, len(ORDERS))

    def forward(self, x):
        h = self.trunk(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


class Learner:

    def __init__(self, device):
        self.device = device
        self.q, self.target = QNet().to(device), QNet().to(device)
        self.target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.Adam(self.q.parameters(), lr=1e-3, eps=1e-5)

    def update(self, batch, size, beta):
        obs, act, rew, nxt, done, prob = (
            torch.from_numpy(np.asarray(v)).to(self.device) for v in batch[:6])
        with torch.no_grad():
            best = self.q(nxt).argmax(1, keepdim=True)
            boot = self.target(nxt).gather(1, best).squeeze(1)
            goal = rew + GAMMA * (1 - done) * boot
            weight = (size * prob).pow(-beta)
            weight = weight / weight.max()
        pred = self.q(obs).gather(1, act[:, None]).squeeze(1)
        td = goal - pred
        loss = (weight * F.smooth_l1_loss(pred, goal, reduction='none')).mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for t, p in zip(self.target.parameters(), self.q.parameters()):
                t.mul_(1 - TAU).add_(p, alpha=TAU)
        torch_xla.sync()
        return td.detach().cpu().numpy(), loss


def main(seed=3):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    env, memory = Warehouse(seed), Replay(512, 0.6, seed)
    learner = Learner(torch_xla.device())
    actor = QNet()
    obs = env.reset()

    for update in range(-30, UPDATES):
        frac = max(update, 0) / UPDATES
        for _ in range(ENV_STEPS_PER_UPDATE):
            if rng.random() < 1.0 - 0.9 * frac:
                a = int(rng.integers(len(ORDERS)))
            else:
                with torch.no_grad():
                    a = int(actor(torch.from_numpy(obs)[None]).argmax())
            nxt, rew, done = env.step(a)
            memory.add((obs, a, rew, nxt, done))
            obs = env.reset() if done else nxt
        if update < 0:
            continue
        batch = memory.sample(BATCH)
        td, loss = learner.update(batch, len(memory), 0.4 + 0.6 * frac)
        memory.update(batch.idx, td)
        if update % 8 == 0:
            actor.load_state_dict({k: v.cpu() for k, v in learner.q.state_dict().items()})
            print(f'{update:3d} loss {loss.item():.4f} |td| {np.abs(td).mean():.3f}')


if __name__ == '__main__':
    main()
