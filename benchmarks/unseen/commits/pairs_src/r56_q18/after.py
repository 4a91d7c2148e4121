"""Two-tower retrieval with mixed negative sampling (PyTorch/XLA)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_USERS, N_ITEMS, N_GENRES, HISTORY, BATCH = 300, 150, 10, 6, 32
N_UNIFORM = 16


class Tower(nn.Module):

  def __init__(self, width, out):
    super().__init__()
    self.fc1 = nn.Linear(width, 32)
    self.fc2 = nn.Linear(32, out)

  def forward(self, x):
    return F.normalize(self.fc2(F.gelu(self.fc1(x))), dim=-1)


class Retrieval(nn.Module):

  def __init__(self, dim=12, out=16):
    super().__init__()
    self.user = nn.Embedding(N_USERS, dim)
    self.item = nn.Embedding(N_ITEMS, dim)
    self.genre = nn.Embedding(N_GENRES, dim)
    self.user_tower = Tower(2 * dim, out)
    self.item_tower = Tower(2 * dim, out)
    self.log_temp = nn.Parameter(torch.tensor(-2.0))

  def encode_user(self, user, history, history_len):
    valid = torch.arange(HISTORY, device=user.device)[None] < history_len[:, None]
    weight = valid.float() / history_len.clamp(min=1)[:, None].float()
    past = (self.item(history) * weight[..., None]).sum(1)
    return self.user_tower(torch.cat([self.user(user), past], dim=-1))

  def encode_item(self, item, genre):
    return self.item_tower(torch.cat([self.item(item), self.genre(genre)], dim=-1))


def in_batch_loss(model, batch):
  u = model.encode_user(batch['user'], batch['history'], batch['history_len'])
  item = torch.cat([batch['item'], batch['uniform_item']])
  genre = torch.cat([batch['genre'], batch['uniform_genre']])
  v = model.encode_item(item, genre)
  scores = u @ v.t() * torch.exp(-model.log_temp)
  log_q = F.pad(batch['log_q'], (0, N_UNIFORM), value=-math.log(N_ITEMS))
  scores = scores - log_q[None, :]
  clash = batch['item'][:, None] == item[None, :]
  clash = clash & ~torch.eye(
      BATCH, BATCH + N_UNIFORM, dtype=torch.bool, device=clash.device)
  scores = scores.masked_fill(clash, -1e9)
  target = torch.arange(BATCH, device=scores.device)
  return F.cross_entropy(scores, target)


def make_optimizer(model):
  return torch.optim.Adam(model.parameters(), lr=3e-3)


def stream(seed, steps):
  g = torch.Generator().manual_seed(seed)
  pop = torch.softmax(torch.randn(N_ITEMS, generator=g), 0)
  genre = torch.randint(0, N_GENRES, (N_ITEMS,), generator=g)
  for _ in range(steps):
    item = torch.multinomial(pop, BATCH, replacement=True, generator=g)
    uniform = torch.randint(0, N_ITEMS, (N_UNIFORM,), generator=g)
    yield {
        'user': torch.randint(0, N_USERS, (BATCH,), generator=g),
        'history': torch.randint(0, N_ITEMS, (BATCH, HISTORY), generator=g),
        'history_len': torch.randint(0, HISTORY + 1, (BATCH,), generator=g),
        'item': item, 'genre': genre[item], 'log_q': pop[item].log(),
        'uniform_item': uniform, 'uniform_genre': genre[uniform]}


def main(steps=6):
  torch.manual_seed(4)
  device = torch_xla.device()
  model = Retrieval().to(device)
  optimizer = make_optimizer(model)
  torch_xla.sync()
  for batch in stream(8, steps):
    batch = {k: v.to(device) for k, v in batch.items()}
    optimizer.zero_grad()
    loss = in_batch_loss(model, batch)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    print(f'{loss.item():.6f}')
  return model


if __name__ == '__main__':
  model = main()
  for name, p in sorted(model.named_parameters()):
    print(name, f'{p.detach().cpu().double().abs().sum().item():.5f}')
