"""Double DQN agent with prioritised importance weights, on a toy inventory environment."""
import copy
import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm

Transition = namedtuple("Transition", "obs action reward next_obs done weight")


class InventoryEnv:
    """Order 0..3 crates a day; random demand; holding and stock-out costs."""

    def __init__(self, capacity=12, seed=0):
        self.capacity = capacity
        self.rng = random.Random(seed)

    def reset(self):
        self.stock, self.day = self.capacity // 2, 0
        return self._obs()

    def _obs(self):
        return [self.stock / self.capacity, self.day / 30.0, (self.day % 7) / 7.0, 1.0]

    def step(self, action):
        demand = self.rng.randint(0, 4)
        self.stock = min(self.capacity, self.stock + action)
        sold = min(self.stock, demand)
        self.stock -= sold
        self.day += 1
        reward = sold - 0.1 * self.stock - 0.5 * (demand - sold)
        return self._obs(), reward, self.day >= 30


class DuelingNet(nn.Module):
    def __init__(self, n_obs, n_actions, width=48):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(n_obs, width), nn.ELU(), nn.Linear(width, width), nn.ELU()
        )
        self.value = nn.Linear(width, 1)
        self.advantage = nn.Linear(width, n_actions)

    def forward(self, obs):
        h = self.trunk(obs)
        adv = self.advantage(h)
        return self.value(h) + adv - adv.mean(dim=1, keepdim=True)


class Agent:
    def __init__(self, device, n_obs=4, n_actions=4, gamma=0.97, tau=0.01, lr=5e-4):
        self.device, self.gamma, self.tau = device, gamma, tau
        self.online = DuelingNet(n_obs, n_actions).to(device)
        self.target = copy.deepcopy(self.online)
        self.opt = torch.optim.Adam(self.online.parameters(), lr=lr)
        self.replay = deque(maxlen=2000)

    def act(self, obs, eps, rng):
        return rng.randrange(4) if rng.random() < eps else int(obs[0] < 0.4) * 2

    def sample(self, batch_size, rng):
        rows = Transition(*zip(*rng.sample(self.replay, batch_size)))
        as_float = lambda v: torch.tensor(v, dtype=torch.float32).to(self.device)
        return Transition(
            as_float(rows.obs),
            torch.tensor(rows.action).to(self.device),
            as_float(rows.reward),
            as_float(rows.next_obs),
            as_float(rows.done),
            as_float(rows.weight),
        )

    def learn(self, batch):
        q = self.online(batch.obs).gather(1, batch.action.unsqueeze(1)).squeeze(1)
        best = self.online(batch.next_obs).argmax(dim=1, keepdim=True)
        q_next = self.target(batch.next_obs).gather(1, best).squeeze(1)
        expected = (batch.reward + self.gamma * (1.0 - batch.done) * q_next)
        td = nn.functional.smooth_l1_loss(q, expected, reduction="none")
        loss = (batch.weight * td).mean()
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(self.online.parameters(), 1.0)
        self.opt.step()
        with torch.no_grad():
            for p, q in zip(self.target.parameters(), self.online.parameters()):
                p.lerp_(q, self.tau)
        return loss.detach()


def main():
    torch.manual_seed(0)
    rng = random.Random(17)
    device = torch_xla.device()
    env, agent = InventoryEnv(), Agent(device)
    obs, updates = env.reset(), 0
    for t in range(70):
        action = agent.act(obs, max(0.05, 1.0 - t / 50), rng)
        nxt, reward, done = env.step(action)
        agent.replay.append(Transition(obs, action, reward, nxt, float(done), rng.uniform(0.5, 1)))
        obs = env.reset() if done else nxt
        if t >= 60:
            loss = agent.learn(agent.sample(24, rng))
            torch_xla.sync()
            updates += 1
            if updates % 5 == 0:
                xm.master_print(f"t={t} updates={updates} loss={loss.item():.4f}")


if __name__ == "__main__":
    main()
