"""Momentum-contrast pretraining on short sensor windows (TPU port)."""
import argparse
import copy
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CFG = dict(
    channels=6,
    window=24,
    width=16,
    feat_dim=12,
    queue_size=64,
    batch_size=16,
    momentum=0.99,
    temperature=0.2,
    lr=0.03,
    weight_decay=1e-4,
)


class WindowEncoder(nn.Module):

  def __init__(self, channels, width, feat_dim):
    super().__init__()
    self.conv1 = nn.Conv1d(channels, width, 5, padding=2)
    self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
    self.norm = nn.GroupNorm(4, width)
    self.proj = nn.Sequential(
        nn.Linear(width, width), nn.ReLU(), nn.Linear(width, feat_dim))

  def forward(self, x):
    h = F.relu(self.conv1(x))
    h = F.relu(self.norm(self.conv2(h)))
    return F.normalize(self.proj(h.mean(-1)), dim=1)


class MoCo(nn.Module):

  def __init__(self, cfg):
    super().__init__()
    self.m = cfg["momentum"]
    self.T = cfg["temperature"]
    self.K = cfg["queue_size"]
    self.encoder_q = WindowEncoder(cfg["channels"], cfg["width"],
                                   cfg["feat_dim"])
    self.encoder_k = copy.deepcopy(self.encoder_q)
    for p in self.encoder_k.parameters():
      p.requires_grad_(False)
    self.register_buffer(
        "queue", F.normalize(torch.randn(cfg["feat_dim"], self.K), dim=0))
    self.queue_ptr = 0

  @torch.no_grad()
  def _momentum_update_key_encoder(self):
    for pq, pk in zip(self.encoder_q.parameters(),
                      self.encoder_k.parameters()):
      pk.mul_(self.m).add_(pq, alpha=1.0 - self.m)

  @torch.no_grad()
  def _dequeue_and_enqueue(self, keys):
    n = keys.shape[0]
    assert self.K % n == 0
    ptr = self.queue_ptr
    self.queue[:, ptr:ptr + n] = keys.T
    self.queue_ptr = (ptr + n) % self.K

  def forward(self, im_q, im_k):
    q = self.encoder_q(im_q)
    with torch.no_grad():
      self._momentum_update_key_encoder()
      k = self.encoder_k(im_k)
    l_pos = torch.einsum("nc,nc->n", q, k).unsqueeze(-1)
    l_neg = torch.einsum("nc,ck->nk", q, self.queue.clone().detach())
    logits = torch.cat([l_pos, l_neg], dim=1) / self.T
    labels = torch.zeros(logits.shape[0], dtype=torch.long, device=q.device)
    self._dequeue_and_enqueue(k)
    return logits, labels


def two_views(rng, cfg):
  """Two noisy, rescaled views of the same random oscillation."""
  n, c, t = cfg["batch_size"], cfg["channels"], cfg["window"]
  freq = rng.uniform(0.5, 3.0, size=(n, c, 1))
  phase = rng.uniform(0, 2 * math.pi, size=(n, c, 1))
  base = np.sin(freq * np.linspace(0, 4, t) + phase)
  views = []
  for _ in range(2):
    gain = rng.uniform(0.8, 1.2, size=(n, c, 1))
    views.append(
        torch.from_numpy(
            (gain * base + 0.1 * rng.normal(size=base.shape)).astype("f4")))
  return views


def main():
  ap = argparse.ArgumentParser()
  ap.add_argument("--steps", type=int, default=9)
  ap.add_argument("--seed", type=int, default=11)
  args = ap.parse_args()
  torch.manual_seed(args.seed)
  rng = np.random.default_rng(args.seed)
  device = torch_xla.device()

  model = MoCo(CFG).to(device)
  opt = torch.optim.SGD(
      model.encoder_q.parameters(),
      lr=CFG["lr"],
      momentum=0.9,
      weight_decay=CFG["weight_decay"])
  torch_xla.sync()

  for it in range(args.steps):
    im_q, im_k = (v.to(device) for v in two_views(rng, CFG))
    logits, labels = model(im_q, im_k)
    loss = F.cross_entropy(logits, labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    torch_xla.sync()
    if it % 4 == 0:
      print(f"iter {it} loss {loss.item():.4f}")


if __name__ == "__main__":
  main()
