"""Double DQN on a small numpy grid world."""
import collections
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

Transition = collections.namedtuple("Transition", "obs action reward next_obs done")


class GridWorld:
    SIZE = 5
    MOVES = [(0, 1), (0, -1), (1, 0), (-1, 0)]

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.pos = self.rng.integers(0, self.SIZE, 2)
        self.goal = self.rng.integers(0, self.SIZE, 2)
        self.t = 0
        return self._obs()

    def _obs(self):
        return np.concatenate([self.pos, self.goal, self.goal - self.pos]).astype(np.float32) / self.SIZE

    def step(self, action):
        self.pos = np.clip(self.pos + self.MOVES[action], 0, self.SIZE - 1)
        self.t += 1
        reached = bool((self.pos == self.goal).all())
        return self._obs(), 1.0 if reached else -0.05, reached or self.t >= 20


class Replay:
    def __init__(self, capacity):
        self.items = collections.deque(maxlen=capacity)

    def push(self, *args):
        self.items.append(Transition(*args))

    def sample(self, n, device):
        cols = Transition(*zip(*random.sample(list(self.items), n)))
        as_f = lambda c: torch.from_numpy(np.asarray(c, dtype=np.float32)).to(device)
        return (as_f(cols.obs), torch.tensor(cols.action).to(device), as_f(cols.reward),
                as_f(cols.next_obs), as_f(cols.done))


def q_network():
    return nn.Sequential(
        nn.Linear(6, 64), nn.ReLU(),
        nn.Linear(64, 64), nn.ReLU(),
        nn.Linear(64, len(GridWorld.MOVES)),
    )


class Agent:
    def __init__(self, device, gamma=0.97, lr=1e-3):
        self.device, self.gamma = device, gamma
        self.online = q_network().to(device)
        self.target = q_network().to(device)
        self.sync_target()
        self.opt = torch.optim.Adam(self.online.parameters(), lr=lr)

    def sync_target(self):
        self.target.load_state_dict(self.online.state_dict())
        torch_xla.sync()

    @torch.no_grad()
    def act(self, obs, eps):
        if random.random() < eps:
            return random.randrange(len(GridWorld.MOVES))
        q = self.online(torch.from_numpy(obs).to(self.device).unsqueeze(0))
        return int(q.argmax(1).cpu())

    def learn(self, batch):
        obs, action, reward, next_obs, done = batch
        q = self.online(obs).gather(1, action.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = self.online(next_obs).argmax(1, keepdim=True)
            backup = reward + self.gamma * (1 - done) * self.target(next_obs).gather(1, best).squeeze(1)
        loss = F.mse_loss(q, backup)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        torch_xla.sync()
        return loss.detach()


def main(env_steps=160, warmup=40, train_every=4, target_every=20, batch_size=32):
    random.seed(0)
    torch.manual_seed(0)
    agent, env, replay = Agent(torch_xla.device()), GridWorld(1), Replay(500)
    obs, episode_return, returns = env.reset(), 0.0, []
    for step in range(env_steps):
        eps = max(0.1, 1.0 - step / 100)
        action = agent.act(obs, eps)
        next_obs, reward, done = env.step(action)
        replay.push(obs, action, reward, next_obs, done)
        episode_return += reward
        obs = next_obs
        if done:
            returns.append(episode_return)
            obs, episode_return = env.reset(), 0.0
        if step >= warmup and step % train_every == 0:
            loss = agent.learn(replay.sample(batch_size, agent.device))
        if step >= warmup and step % target_every == 0:
            agent.sync_target()
            print(f"step {step} loss {loss.item():.4f} return {np.mean(returns[-10:]):.2f} eps {eps:.2f}")


if __name__ == "__main__":
    main()
