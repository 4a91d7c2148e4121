"""Small DQN on a made-up control task; replay is filled from a random policy."""
import argparse
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclass
class Args:
    obs_dim: int = 6
    n_actions: int = 4
    hidden: int = 32
    batch: int = 16
    gamma: float = 0.97
    tau: float = 0.01
    lr: float = 1e-3
    max_norm: float = 10.0
    updates: int = 5


class DuelingQ(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(obs_dim, hidden), nn.SiLU(),
            nn.Linear(hidden, hidden), nn.SiLU(),
        )
        self.value = nn.Linear(hidden, 1)
        self.advantage = nn.Linear(hidden, n_actions)

    def forward(self, obs):
        h = self.body(obs)
        adv = self.advantage(h)
        return self.value(h) + adv - adv.mean(dim=-1, keepdim=True)


class Replay:
    def __init__(self, args, size=256, seed=0):
        rng = np.random.default_rng(seed)
        self.rng = rng
        self.obs = rng.normal(size=(size, args.obs_dim)).astype(np.float32)
        self.act = rng.integers(0, args.n_actions, size=size)
        drift = 0.1 * np.tanh(self.act[:, None] - 1.5)
        self.next_obs = (0.9 * self.obs + drift).astype(np.float32)
        self.rew = (-np.abs(self.next_obs[:, 0])).astype(np.float32)
        self.done = (rng.random(size) < 0.05).astype(np.float32)

    def sample(self, n, device):
        i = self.rng.integers(0, len(self.obs), size=n)
        arrays = (self.obs[i], self.act[i], self.rew[i], self.next_obs[i], self.done[i])
        return [torch.from_numpy(a).to(device) for a in arrays]


class Agent:
    def __init__(self, args, device):
        self.args = args
        self.q = DuelingQ(args.obs_dim, args.n_actions, args.hidden).to(device)
        self.target = DuelingQ(args.obs_dim, args.n_actions, args.hidden).to(device)
        self.target.load_state_dict(self.q.state_dict())
        self.target.requires_grad_(False)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=args.lr)

    @torch.no_grad()
    def td_target(self, rew, next_obs, done):
        next_online = self.q(next_obs)
        best = next_online.argmax(dim=1, keepdim=True)
        next_target = self.target(next_obs)
        # clipped double estimate: never trust the larger of the two heads
        next_v = torch.minimum(next_online.gather(1, best), next_target.gather(1, best))
        return rew + self.args.gamma * (1.0 - done) * next_v.squeeze(1)

    def update(self, batch):
        obs, act, rew, next_obs, done = batch
        y = self.td_target(rew, next_obs, done)
        q_sa = self.q(obs).gather(1, act.unsqueeze(1)).squeeze(1)
        loss = F.smooth_l1_loss(q_sa, y)
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.q.parameters(), self.args.max_norm, foreach=False)
        self.opt.step()
        with torch.no_grad():
            for p, tp in zip(self.q.parameters(), self.target.parameters()):
                tp.lerp_(p, self.args.tau)
        return loss.detach(), q_sa.detach().mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=Args.updates)
    args = Args(updates=parser.parse_args().updates)
    torch.manual_seed(7)
    device = torch_xla.device()
    agent = Agent(args, device)
    replay = Replay(args)
    torch_xla.sync()
    for it in range(args.updates):
        loss, q_mean = agent.update(replay.sample(args.batch, device))
        torch_xla.sync()
        print(f"{it:03d} td {loss.item():.5f} q {q_mean.item():+.4f}")


if __name__ == "__main__":
    main()
