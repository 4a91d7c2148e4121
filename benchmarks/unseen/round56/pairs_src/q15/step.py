"""Physics-informed network for viscous Burgers, trained on PyTorch/XLA."""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch_xla


@dataclass
class Config:
  width: int = 24
  depth: int = 2
  n_interior: int = 64
  n_initial: int = 24
  n_boundary: int = 16
  viscosity: float = 0.01 / math.pi
  lr: float = 2e-3
  w_initial: float = 20.0
  w_boundary: float = 5.0
  residual_ramp: int = 8
  steps: int = 10
  seed: int = 3


class FourierFeatures(nn.Module):

  def __init__(self, n_in, n_freq):
    super().__init__()
    self.register_buffer('freq', torch.randn(n_in, n_freq))

  def forward(self, x):
    z = x @ self.freq
    return torch.cat([torch.sin(z), torch.cos(z)], dim=-1)


class Pinn(nn.Module):

  def __init__(self, cfg):
    super().__init__()
    self.encode = FourierFeatures(2, cfg.width // 2)
    layers = []
    for _ in range(cfg.depth):
      layers += [nn.Linear(cfg.width, cfg.width), nn.Tanh()]
    self.body = nn.Sequential(*layers)
    self.head = nn.Linear(cfg.width, 1)

  def forward(self, x, t):
    return self.head(self.body(self.encode(torch.cat([x, t], dim=-1))))


def grad(y, x):
  return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def burgers_residual(model, x, t, viscosity):
  x.requires_grad_(True)
  t.requires_grad_(True)
  u = model(x, t)
  u_x = grad(u, x)
  return grad(u, t) + u * u_x - viscosity * grad(u_x, x)


class Sampler:

  def __init__(self, cfg):
    self.cfg = cfg
    self.gen = torch.Generator().manual_seed(cfg.seed)

  def uniform(self, n, lo, hi):
    return lo + (hi - lo) * torch.rand(n, 1, generator=self.gen)

  def draw(self):
    c = self.cfg
    side = torch.sign(self.uniform(c.n_boundary, -1, 1))
    return dict(
        x=self.uniform(c.n_interior, -1, 1), t=self.uniform(c.n_interior, 0, 1),
        x0=self.uniform(c.n_initial, -1, 1),
        xb=side, tb=self.uniform(c.n_boundary, 0, 1))


def residual_weight(cfg, step):
  """Let the network fit the data first, then bring the equation in."""
  return min(1.0, (step + 1) / cfg.residual_ramp)


def train_step(model, optimizer, points, cfg, step):
  optimizer.zero_grad(set_to_none=True)
  r = burgers_residual(model, points['x'], points['t'], cfg.viscosity)
  u0 = model(points['x0'], torch.zeros_like(points['x0']))
  ub = model(points['xb'], points['tb'])
  loss_r = r.square().mean()
  loss_0 = (u0 + torch.sin(math.pi * points['x0'])).square().mean()
  loss_b = ub.square().mean()
  loss = (residual_weight(cfg, step) * loss_r + cfg.w_initial * loss_0 +
          cfg.w_boundary * loss_b)
  loss.backward()
  nn.utils.clip_grad_norm_(model.parameters(), 5.0)
  optimizer.step()
  return loss.detach(), loss_r.detach()


def main():
  cfg = Config()
  torch.manual_seed(cfg.seed)
  device = torch_xla.device()
  model = Pinn(cfg).to(device)
  optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
  sampler = Sampler(cfg)
  torch_xla.sync()
  log = []
  for step in range(cfg.steps):
    points = {k: v.to(device) for k, v in sampler.draw().items()}
    log.append(train_step(model, optimizer, points, cfg, step))
    torch_xla.sync()
  for step, (loss, res) in enumerate(log):
    print(step, f'{loss.item():.4f} {res.item():.4f}')


if __name__ == '__main__':
  main()
