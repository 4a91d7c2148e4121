"""Two-tower retrieval with in-batch softmax (PyTorch/XLA)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

N_USERS, N_ITEMS, N_GENRES, HISTORY, BATCH = 300, 150, 10, 6, 32


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

  def encode_item(self, item, genre):
    return self.item_tower(torch.cat([self.item(item), self.genre(genre)], dim=-1))

  def encode_user(self, user, history, history_len):
    past = masked_mean(self.item(history), history_len)
    return self.user_tower(torch.cat([self.user(user), past], dim=-1))

  def forward(self, batch):
    v = self.encode_item(batch['item'], batch['genre'])
    u = self.encode_user(batch['user'], batch['history'], batch['history_len'])
    return torch.einsum('id,ud->ui', v, u) * self.log_temp.neg().exp()


def masked_mean(x, length):
  steps = torch.arange(x.shape[1], device=x.device)
  valid = length.unsqueeze(1) > steps.unsqueeze(0)
  weight = valid.to(x.dtype) / length.clamp(min=1).unsqueeze(1).to(x.dtype)
  return torch.einsum('bh,bhd->bd', weight, x)


def accidental_hits(item):
  same = item.unsqueeze(0) == item.unsqueeze(1)
  index = torch.arange(item.shape[0], device=item.device)
  return same.logical_and(index.unsqueeze(1) != index.unsqueeze(0))


def in_batch_loss(model, batch):
  scores = model(batch) - batch['log_q']
  scores = torch.where(accidental_hits(batch['item']), -1e9, scores)
  return -F.log_softmax(scores, dim=-1).diagonal().mean()


def make_optimizer(model):
  tables = [m.weight for m in model.modules() if isinstance(m, nn.Embedding)]
  seen = {id(p) for p in tables}
  dense = [p for p in model.parameters() if id(p) not in seen]
  return torch.optim.Adam([{'params': dense}, {'params': tables}], lr=3e-3)


def stream(seed, steps):
  g = torch.Generator().manual_seed(seed)
  pop = torch.softmax(torch.randn(N_ITEMS, generator=g), 0)
  genre = torch.randint(0, N_GENRES, (N_ITEMS,), generator=g)
  for _ in range(steps):
    item = torch.multinomial(pop, BATCH, replacement=True, generator=g)
    yield {
        'user': torch.randint(0, N_USERS, (BATCH,), generator=g),
        'history': torch.randint(0, N_ITEMS, (BATCH, HISTORY), generator=g),
        'history_len': torch.randint(0, HISTORY + 1, (BATCH,), generator=g),
        'item': item, 'genre': genre[item], 'log_q': pop[item].log()}


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
