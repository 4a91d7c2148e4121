"""Munchausen DQN on a toy pendulum-like task, n-step replay, TPU learner."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class DuelingNet(nn.Module):
    def __init__(self, obs_dim, n_actions, width=24):
        super().__init__()
        self.torso = nn.Sequential(
            nn.Linear(obs_dim, width), nn.LayerNorm(width), nn.SiLU(),
            nn.Linear(width, width), nn.SiLU(),
        )
        self.adv = nn.Linear(width, n_actions)
        self.val = nn.Linear(width, 1)

    def forward(self, obs):
        h = self.torso(obs)
        a = self.adv(h)
        return self.val(h) + a - a.mean(-1, keepdim=True)


class NStepReplay:
    def __init__(self, obs_dim, n_actions, gamma, n, size=512, seed=0):
        self.rng = np.random.default_rng(seed)
        self.obs = self.rng.normal(size=(size, obs_dim)).astype(np.float32)
        self.nxt = (0.9 * self.obs + 0.1 * self.rng.normal(size=(size, obs_dim))).astype(np.float32)
        self.act = self.rng.integers(0, n_actions, size=size)
        self.rew = np.tanh(self.obs[:, 0]).astype(np.float32)
        self.disc = np.where(self.rng.random(size) < 0.05, 0.0, gamma ** n).astype(np.float32)

    def sample(self, batch_size):
        idx = self.rng.integers(0, len(self.obs), size=batch_size)
        return tuple(torch.from_numpy(a[idx]) for a in (self.obs, self.act, self.rew, self.disc, self.nxt))


class Learner:
    def __init__(self, args, device):
        self.args = args
        self.device = device
        self.online = DuelingNet(args.obs_dim, args.n_actions).to(device)
        self.target = DuelingNet(args.obs_dim, args.n_actions).to(device)
        self.target.load_state_dict(self.online.state_dict())
        self.target.requires_grad_(False)
        self.opt = torch.optim.RMSprop(
            self.online.parameters(), lr=args.lr, alpha=0.95, eps=1e-5, centered=True)
        self.updates = 0

    def soft_values(self, q):
        tau = self.args.tau
        logpi = F.log_softmax(q / tau, dim=-1)
        return (logpi.exp() * (q - tau * logpi)).sum(-1)

    def munchausen_bonus(self, q, act):
        logpi = F.log_softmax(q / self.args.tau, dim=-1).gather(1, act[:, None]).squeeze(1)
        return self.args.m_alpha * (self.args.tau * logpi).clamp(min=-1.0, max=0.0)

    def targets(self, obs, act, rew, disc, nxt):
        with torch.no_grad():
            boot = self.soft_values(self.target(nxt))
            bonus = self.munchausen_bonus(self.target(obs), act)
            return rew + bonus + disc * boot

    def update(self, batch):
        if self.updates % self.args.target_period == 0:
            self.target.load_state_dict(self.online.state_dict())
        obs, act, rew, disc, nxt = (t.to(self.device) for t in batch)
        y = self.targets(obs, act, rew, disc, nxt)
        q = self.online(obs).gather(1, act[:, None]).squeeze(1)
        loss = F.smooth_l1_loss(q, y)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.online.parameters(), self.args.max_norm)
        self.opt.step()
        self.updates += 1
        torch_xla.sync()
        return loss


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--obs_dim", type=int, default=6)
    p.add_argument("--n_actions", type=int, default=5)
    p.add_argument("--batch_size", type=int, default=16)
    p.add_argument("--lr", type=float, default=2.5e-4)
    p.add_argument("--tau", type=float, default=0.03)
    p.add_argument("--m_alpha", type=float, default=0.9)
    p.add_argument("--gamma", type=float, default=0.99)
    p.add_argument("--n_step", type=int, default=3)
    p.add_argument("--max_norm", type=float, default=10.0)
    p.add_argument("--target_period", type=int, default=4)
    p.add_argument("--updates", type=int, default=9)
    args = p.parse_args()

    torch.manual_seed(0)
    device = torch_xla.device()
    replay = NStepReplay(args.obs_dim, args.n_actions, args.gamma, args.n_step)
    learner = Learner(args, device)
    torch_xla.sync()
    for i in range(args.updates):
        loss = learner.update(replay.sample(args.batch_size))
        print(f"update {i} loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
