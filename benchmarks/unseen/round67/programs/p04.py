"""Novelty-search evolution strategy (NS-ES) for a small maze navigator.

Each generation perturbs the policy with antithetic noise, rolls the whole
population out in a batched simulator on the device, and
scores individuals by a mix of goal distance and behavioural novelty (mean
distance to the nearest neighbours among previously visited end points).
"""
from dataclasses import dataclass

import torch
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    generations: int = 30
    pairs: int = 16
    hidden: int = 12
    horizon: int = 10
    sigma: float = 0.08
    lr: float = 0.05
    neighbours: int = 5
    novelty_weight: float = 0.5
    report: int = 10
    seed: int = 5


class BatchedPolicy:
    """Two-layer tanh policies held as flat rows, one row per individual."""

    def __init__(self, obs_dim, act_dim, hidden):
        self.shapes = [(obs_dim, hidden), (1, hidden), (hidden, act_dim), (1, act_dim)]
        self.sizes = [a * b for a, b in self.shapes]
        self.num_params = sum(self.sizes)

    def unpack(self, flat):
        parts = flat.split(self.sizes, dim=1)
        return [p.reshape(-1, *s) for p, s in zip(parts, self.shapes)]

    def act(self, weights, obs):
        w1, b1, w2, b2 = weights
        h = torch.tanh(torch.bmm(obs.unsqueeze(1), w1) + b1)
        return torch.tanh(torch.bmm(h, w2) + b2).squeeze(1)


class Maze:
    """Point robot in the unit square with a circular obstacle in the middle."""

    def __init__(self, device):
        self.start = torch.tensor([0.1, 0.1], device=device)
        self.goal = torch.tensor([0.9, 0.85], device=device)
        self.centre = torch.tensor([0.5, 0.5], device=device)
        self.radius = 0.18

    def reset(self, n):
        return self.start.expand(n, 2).clone()

    def observe(self, pos):
        to_goal = self.goal - pos
        to_wall = self.centre - pos
        clearance = to_wall.norm(dim=1, keepdim=True) - self.radius
        return torch.cat([pos, to_goal, clearance], dim=1)

    def advance(self, pos, action):
        nxt = (pos + 0.12 * action).clamp(0.0, 1.0)
        offset = nxt - self.centre
        dist = offset.norm(dim=1, keepdim=True).clamp_min(1e-6)
        pushed = self.centre + offset / dist * self.radius
        return torch.where(dist < self.radius, pushed, nxt)


def rollout(policy, maze, population, horizon):
    weights = policy.unpack(population)
    pos = maze.reset(population.shape[0])
    for _ in range(horizon):
        pos = maze.advance(pos, policy.act(weights, maze.observe(pos)))
    return pos


class Archive:
    def __init__(self, seed_points, k):
        self.points = seed_points
        self.k = k

    def novelty(self, behaviour):
        d = torch.cdist(behaviour, self.points)
        nearest, _ = torch.topk(d, self.k, dim=1, largest=False)
        return nearest.mean(dim=1)

    def add(self, behaviour):
        self.points = torch.cat([self.points, behaviour], dim=0)


def centred_rank(x):
    ranks = x.argsort().argsort().to(torch.float32)
    return ranks / (x.numel() - 1) - 0.5


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = xm.xla_device()

    maze = Maze(device)
    policy = BatchedPolicy(obs_dim=5, act_dim=2, hidden=cfg.hidden)
    theta = (0.3 * torch.randn(policy.num_params)).to(device)
    momentum = torch.zeros_like(theta)

    first = theta + 0.5 * torch.randn(8, policy.num_params).to(device)
    archive = Archive(rollout(policy, maze, first, cfg.horizon), cfg.neighbours)
    xm.mark_step()

    for gen in range(cfg.generations):
        noise = torch.randn(cfg.pairs, policy.num_params).to(device)
        noise = torch.cat([noise, -noise], dim=0)
        population = theta + cfg.sigma * noise

        ends = rollout(policy, maze, population, cfg.horizon)
        reward = -(ends - maze.goal).norm(dim=1)
        novelty = archive.novelty(ends)

        w = cfg.novelty_weight
        score = (1 - w) * centred_rank(reward) + w * centred_rank(novelty)
        grad = (score.unsqueeze(1) * noise).mean(dim=0) / cfg.sigma
        momentum = 0.9 * momentum + 0.1 * grad
        theta = theta + cfg.lr * momentum

        centre_end = rollout(policy, maze, theta.unsqueeze(0), cfg.horizon)
        archive.add(centre_end)
        xm.mark_step()

        if (gen + 1) % cfg.report == 0:
            print(f"gen {gen + 1:3d}  best {reward.max().item():.3f}  "
                  f"novelty {novelty.mean().item():.3f}  end {centre_end[0].tolist()}")


if __name__ == "__main__":
    main()
