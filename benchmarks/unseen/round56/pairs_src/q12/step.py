"""Cross-network CTR ranker over daily impression shards (PyTorch/XLA)."""
import io

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

CATEGORICAL = {'user_id': 200, 'item_id': 120, 'category': 12, 'hour': 24}
NUMERIC = ['price', 'days_since_visit', 'position']
LABEL = 'clicked'
BATCH_SIZE = 48
LOG_EVERY = 3


def export_day(day, rows=4 * BATCH_SIZE):
  """Stands in for the warehouse: the day's impressions as CSV."""
  rng = np.random.default_rng(100 + day)
  cols = {k: rng.integers(0, n, rows) for k, n in CATEGORICAL.items()}
  cols['price'] = rng.gamma(2.0, 8.0, rows).round(2)
  cols['position'] = rng.integers(1, 11, rows)
  visit = rng.integers(0, 60, rows).astype(object)
  if day:
    visit[rng.random(rows) < 0.03] = ''
  cols['days_since_visit'] = visit
  cols[LABEL] = (rng.random(rows) < 0.3).astype(int)
  return pd.DataFrame(cols).to_csv(index=False)


def read_shard(text):
  frame = pd.read_csv(io.StringIO(text))
  return frame.fillna(0)


def batches(frame):
  for start in range(0, len(frame) - BATCH_SIZE + 1, BATCH_SIZE):
    rows = frame.iloc[start:start + BATCH_SIZE]
    yield {c: torch.from_numpy(rows[c].to_numpy().copy()) for c in rows}


class CrossLayer(nn.Module):

  def __init__(self, dim, rank):
    super().__init__()
    self.down = nn.Linear(dim, rank, bias=False)
    self.up = nn.Linear(rank, dim)

  def forward(self, x0, x):
    return x0 * self.up(self.down(x)) + x


class Ranker(nn.Module):

  def __init__(self, dim=8, n_cross=2, rank=8, hidden=32):
    super().__init__()
    self.tables = nn.ModuleDict(
        {k: nn.Embedding(n, dim) for k, n in CATEGORICAL.items()})
    self.numeric_norm = nn.LayerNorm(len(NUMERIC))
    width = dim * len(CATEGORICAL) + len(NUMERIC)
    self.cross = nn.ModuleList(CrossLayer(width, rank) for _ in range(n_cross))
    self.deep = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(),
                              nn.Linear(hidden, hidden), nn.ReLU())
    self.out = nn.Linear(width + hidden, 1)

  def forward(self, batch):
    dense = torch.stack([batch[c].float() for c in NUMERIC], dim=1)
    dense = self.numeric_norm(torch.log1p(dense))
    x0 = torch.cat([t(batch[k]) for k, t in self.tables.items()] + [dense], dim=1)
    x = x0
    for layer in self.cross:
      x = layer(x0, x)
    return self.out(torch.cat([x, self.deep(x0)], dim=1)).squeeze(1)


class Meter:

  def __init__(self, device):
    self.entropy = torch.zeros((), device=device)
    self.base = torch.zeros((), device=device)
    self.correct = torch.zeros((), device=device)
    self.seen = torch.zeros((), device=device)

  def update(self, logits, label):
    rate = label.mean().clamp(1e-4, 1 - 1e-4)
    self.base += F.binary_cross_entropy(rate.expand_as(label), label)
    self.entropy += F.binary_cross_entropy_with_logits(logits, label)
    self.correct += ((logits > 0) == (label > 0.5)).float().sum()
    self.seen += label.numel()

  def compute(self):
    return (self.entropy / self.base).item(), (self.correct / self.seen).item()


def main():
  torch.manual_seed(11)
  device = torch_xla.device()
  model = Ranker().to(device)
  optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
  meter = Meter(device)
  torch_xla.sync()
  step = 0
  for day in range(2):
    for batch in batches(read_shard(export_day(day))):
      batch = {k: v.to(device) for k, v in batch.items()}
      label = batch[LABEL].float()
      optimizer.zero_grad()
      logits = model(batch)
      loss = F.binary_cross_entropy_with_logits(logits, label)
      loss.backward()
      optimizer.step()
      if step % LOG_EVERY == 0:
        meter.update(logits.detach(), label)
      torch_xla.sync()
      step += 1
  print('normalized entropy %.4f, accuracy %.4f' % meter.compute())


if __name__ == '__main__':
  main()
