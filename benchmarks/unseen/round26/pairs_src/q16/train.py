"""Denoising diffusion on 2-D point sets (moons), predicting x0."""
import copy
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from sklearn.datasets import make_moons
from torch.utils.data import DataLoader, TensorDataset

TIMESTEPS = 50
BATCH = 16
EMA_START = 6
EMA_DECAY = 0.995
SELF_COND_PROB = 0.5


class FiLM(nn.Module):
  def __init__(self, dim, tdim):
    super().__init__()
    self.fc = nn.Linear(dim, dim)
    self.mod = nn.Linear(tdim, 2 * dim)

  def forward(self, x, t):
    scale, shift = self.mod(t).chunk(2, -1)
    return x + F.silu(self.fc(x) * (1 + scale) + shift)


class Denoiser(nn.Module):
  def __init__(self, dim=24, tdim=8):
    super().__init__()
    self.register_buffer("freqs", 2.0 ** torch.arange(tdim // 2))
    self.inp = nn.Linear(4, dim)
    self.b1 = FiLM(dim, tdim)
    self.b2 = FiLM(dim, tdim)
    self.out = nn.Linear(dim, 2)

  def forward(self, x, t, x_self=None):
    if x_self is None:
      x_self = torch.zeros_like(x)
    ang = (t.float() / TIMESTEPS).unsqueeze(-1) * self.freqs
    emb = torch.cat([ang.sin(), ang.cos()], -1)
    h = self.inp(torch.cat([x, x_self], -1))
    return self.out(self.b2(self.b1(h, emb), emb))


class Diffusion(nn.Module):
  def __init__(self, net):
    super().__init__()
    self.net = net
    beta = torch.linspace(1e-4, 0.12, TIMESTEPS)
    abar = torch.cumprod(1 - beta, 0)
    self.register_buffer("sqrt_abar", abar.sqrt())
    self.register_buffer("sqrt_1mabar", (1 - abar).sqrt())

  def q_sample(self, x0, t, noise):
    a = self.sqrt_abar[t].unsqueeze(-1)
    b = self.sqrt_1mabar[t].unsqueeze(-1)
    return a * x0 + b * noise

  def forward(self, x0, t, noise):
    xt = self.q_sample(x0, t, noise)
    x_self = None
    if random.random() < SELF_COND_PROB:
      with torch.no_grad():
        x_self = self.net(xt, t).detach()
    pred = self.net(xt, t, x_self)
    snr_weight = (self.sqrt_abar[t] / self.sqrt_1mabar[t]).clamp(max=5.0)
    return (snr_weight * (pred - x0).pow(2).mean(-1)).mean()


@torch.no_grad()
def ema_update(target, source, decay):
  for e, p in zip(target.parameters(), source.parameters()):
    e.lerp_(p, 1.0 - decay)


def loader():
  pts, _ = make_moons(BATCH * 14, noise=0.05, random_state=0)
  pts = torch.tensor(pts, dtype=torch.float32)
  g = torch.Generator().manual_seed(1)
  t = torch.randint(0, TIMESTEPS, (len(pts),), generator=g)
  eps = torch.randn(pts.shape, generator=g)
  return DataLoader(TensorDataset(pts, t, eps), batch_size=BATCH, drop_last=True)


def train():
  random.seed(4)
  torch.manual_seed(4)
  device = torch_xla.device()
  model = Diffusion(Denoiser()).to(device)
  ema = copy.deepcopy(model.net)
  opt = torch.optim.Adam(model.net.parameters(), lr=2e-3)
  sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.99)
  torch_xla.sync()
  for step, (x0, t, noise) in enumerate(pl.MpDeviceLoader(loader(), device)):
    loss = model(x0, t, noise)
    opt.zero_grad()
    loss.backward()
    xm.optimizer_step(opt)
    sched.step()
    if step >= EMA_START:
      ema_update(ema, model.net, EMA_DECAY)
    if step % 5 == 0:
      xm.add_step_closure(lambda s, l: print(f"[{s:03d}] {l.item():.4f}"),
                          args=(step, loss))


if __name__ == "__main__":
  train()
