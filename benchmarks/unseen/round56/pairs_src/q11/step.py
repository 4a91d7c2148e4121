"""QR-DQN on a replay buffer, PyTorch/XLA."""
import argparse
import copy

import numpy as np
import torch
import torch.nn as nn
import torch_xla


class ReplayBuffer:

  def __init__(self, capacity, obs_dim, n_actions, seed):
    rng = np.random.default_rng(seed)
    self.rng = rng
    self.obs = rng.standard_normal((capacity, obs_dim)).astype(np.float32)
    self.next_obs = self.obs + 0.1 * rng.standard_normal(
        (capacity, obs_dim)).astype(np.float32)
    self.actions = rng.integers(0, n_actions, capacity)
    self.rewards = rng.standard_normal(capacity).astype(np.float32)
    self.dones = (rng.random(capacity) < 0.05).astype(np.float32)

  def sample(self, batch_size):
    idx = self.rng.integers(0, len(self.actions), batch_size)
    fields = (self.obs, self.actions, self.rewards, self.next_obs, self.dones)
    return tuple(torch.from_numpy(f[idx]) for f in fields)


class QuantileNet(nn.Module):

  def __init__(self, obs_dim, n_actions, n_quantiles, width):
    super().__init__()
    self.n_actions, self.n_quantiles = n_actions, n_quantiles
    self.trunk = nn.Sequential(
        nn.Linear(obs_dim, width), nn.LayerNorm(width), nn.ReLU(),
        nn.Linear(width, width), nn.ReLU())
    self.value = nn.Linear(width, n_quantiles)
    self.advantage = nn.Linear(width, n_actions * n_quantiles)

  def forward(self, obs):
    h = self.trunk(obs)
    v = self.value(h).unsqueeze(1)
    a = self.advantage(h).view(-1, self.n_actions, self.n_quantiles)
    return v + a - a.mean(dim=1, keepdim=True)


class Agent:

  def __init__(self, args, device):
    self.args = args
    self.device = device
    self.online = QuantileNet(args.obs_dim, args.n_actions, args.n_quantiles,
                              args.width).to(device)
    self.target = copy.deepcopy(self.online).requires_grad_(False)
    self.optimizer = torch.optim.Adam(
        self.online.parameters(), lr=args.lr, eps=1e-2 / args.batch_size)
    mid = (torch.arange(args.n_quantiles) + 0.5) / args.n_quantiles
    self.tau = mid.view(1, -1, 1).to(device)
    self.updates = 0

  def targets(self, reward, next_obs, done):
    with torch.no_grad():
      greedy = self.online(next_obs).mean(-1).argmax(-1)
      z = self.target(next_obs)
      z = z.gather(1, greedy.view(-1, 1, 1).expand(-1, 1, z.shape[-1]))
      return reward[:, None] + self.args.gamma * (1 - done[:, None]) * z.squeeze(1)

  def loss(self, obs, action, target):
    z = self.online(obs)
    z = z.gather(1, action.view(-1, 1, 1).expand(-1, 1, z.shape[-1])).squeeze(1)
    delta = target[:, None, :] - z[:, :, None]
    huber = torch.where(delta.abs() < 1.0, 0.5 * delta.pow(2), delta.abs() - 0.5)
    weight = (self.tau - (delta.detach() < 0).float()).abs()
    return (weight * huber).sum(1).mean()

  def update(self, batch):
    obs, action, reward, next_obs, done = (t.to(self.device) for t in batch)
    self.optimizer.zero_grad()
    loss = self.loss(obs, action, self.targets(reward, next_obs, done))
    loss.backward()
    self.optimizer.step()
    torch_xla.sync()
    self.updates += 1
    if self.updates % self.args.target_every == 0:
      self.target.load_state_dict(self.online.state_dict())
    return loss


def main():
  p = argparse.ArgumentParser()
  p.add_argument('--obs-dim', type=int, default=12)
  p.add_argument('--n-actions', type=int, default=5)
  p.add_argument('--n-quantiles', type=int, default=8)
  p.add_argument('--width', type=int, default=32)
  p.add_argument('--batch-size', type=int, default=32)
  p.add_argument('--gamma', type=float, default=0.97)
  p.add_argument('--lr', type=float, default=3e-4)
  p.add_argument('--target-every', type=int, default=4)
  p.add_argument('--updates', type=int, default=7)
  args = p.parse_args()

  torch.manual_seed(0)
  device = torch_xla.device()
  agent = Agent(args, device)
  buffer = ReplayBuffer(2048, args.obs_dim, args.n_actions, seed=1)
  torch_xla.sync()
  losses = [agent.update(buffer.sample(args.batch_size))
            for _ in range(args.updates)]
  print(' '.join(f'{l.item():.5f}' for l in losses))


if __name__ == '__main__':
  main()
