"""N-BEATS quantile forecaster for sensor series with gaps (PyTorch/XLA)."""
import numpy as np
import torch
import torch.nn as nn
import torch_xla

CONTEXT, HORIZON = 36, 12
QUANTILES = (0.1, 0.5, 0.9)


def load_series(n_series=24, length=240, seed=5):
  rng = np.random.default_rng(seed)
  t = np.arange(length)
  phase = rng.uniform(0, 6.28, (n_series, 1))
  level = rng.uniform(2, 20, (n_series, 1))
  y = level * (1 + 0.3 * np.sin(t / 24 * 6.28 + phase))
  y = y + 0.2 * rng.standard_normal(y.shape)
  y[rng.integers(0, n_series, 4), 120:126] = np.nan
  return y.astype(np.float32)


class WindowDataset(torch.utils.data.Dataset):

  def __init__(self, series, windows):
    self.series, self.windows = series, windows

  def __len__(self):
    return len(self.windows)

  def __getitem__(self, i):
    row, start = self.windows[i]
    w = self.series[row, start:start + CONTEXT + HORIZON]
    return torch.from_numpy(np.nan_to_num(w)), torch.from_numpy(~np.isnan(w))


def collate(items):
  values = torch.stack([v for v, _ in items])
  observed = torch.stack([o for _, o in items])
  batch = {'past': values[:, :CONTEXT], 'future': values[:, CONTEXT:]}
  if not observed.all():
    batch['past_observed'] = observed[:, :CONTEXT].float()
    batch['future_observed'] = observed[:, CONTEXT:].float()
  return batch


def average(x, weight=None, dim=None, keepdim=False):
  if weight is None:
    return x.mean() if dim is None else x.mean(dim, keepdim=keepdim)
  if dim is None:
    return (x * weight).sum() / weight.sum().clamp(min=1.0)
  return (x * weight).sum(dim, keepdim=keepdim) / weight.sum(
      dim, keepdim=keepdim).clamp(min=1.0)


class Block(nn.Module):

  def __init__(self, width, n_q):
    super().__init__()
    self.n_q = n_q
    self.fc = nn.Sequential(nn.Linear(CONTEXT, width), nn.ReLU(),
                            nn.Linear(width, width), nn.ReLU())
    self.backcast = nn.Linear(width, CONTEXT, bias=False)
    self.forecast = nn.Linear(width, HORIZON * n_q)

  def forward(self, x):
    h = self.fc(x)
    return self.backcast(h), self.forecast(h).view(-1, HORIZON, self.n_q)


class NBeats(nn.Module):

  def __init__(self, n_blocks=3, width=24):
    super().__init__()
    self.blocks = nn.ModuleList(
        Block(width, len(QUANTILES)) for _ in range(n_blocks))
    self.register_buffer('q', torch.tensor(QUANTILES))

  def forward(self, past, observed=None):
    scale = average(past.abs(), observed, dim=1, keepdim=True) + 1e-3
    residual = past / scale
    total = 0.0
    for block in self.blocks:
      back, fore = block(residual)
      residual = residual - back
      total = total + fore
    return total * scale.unsqueeze(-1), scale

  def pinball(self, pred, future, scale, observed=None):
    err = (future.unsqueeze(-1) - pred) / scale.unsqueeze(-1)
    loss = torch.maximum(self.q * err, (self.q - 1) * err).sum(-1)
    return average(loss, observed)


def train_step(model, optimizer, batch):
  optimizer.zero_grad()
  pred, scale = model(batch['past'], batch.get('past_observed'))
  loss = model.pinball(pred, batch['future'], scale, batch.get('future_observed'))
  loss.backward()
  optimizer.step()
  return loss.detach()


def main():
  torch.manual_seed(2)
  series = load_series()
  rng = np.random.default_rng(9)
  windows = [(int(r), int(s)) for r, s in zip(
      rng.integers(0, len(series), 160),
      rng.integers(0, series.shape[1] - CONTEXT - HORIZON, 160))]
  loader = torch.utils.data.DataLoader(
      WindowDataset(series, windows), batch_size=16, collate_fn=collate,
      drop_last=True)
  device = torch_xla.device()
  model = NBeats().to(device)
  optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
  torch_xla.sync()
  losses = []
  for batch in loader:
    batch = {k: v.to(device) for k, v in batch.items()}
    losses.append(train_step(model, optimizer, batch))
    torch_xla.sync()
  print(' '.join(f'{l.item():.4f}' for l in losses))


if __name__ == '__main__':
  main()
