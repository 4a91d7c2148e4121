"""Link prediction on a citation-like graph with a cached GCN (PyTorch/XLA)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def make_graph(n_nodes=60, n_edges=160, n_feat=20, seed=0):
  g = torch.Generator().manual_seed(seed)
  block = torch.randint(0, 4, (n_nodes,), generator=g)
  x = torch.randn(n_nodes, n_feat, generator=g) + block[:, None] * 0.5
  src = torch.randint(0, n_nodes, (n_edges,), generator=g)
  dst = torch.randint(0, n_nodes, (n_edges,), generator=g)
  edges = torch.stack([src, dst])
  n_val = n_edges // 8
  return x, edges[:, n_val:], edges[:, :n_val]


class GCNConv(nn.Module):

  def __init__(self, n_in, n_out, cached=False):
    super().__init__()
    self.lin = nn.Linear(n_in, n_out, bias=False)
    self.bias = nn.Parameter(torch.zeros(n_out))
    self.cached = cached
    self.reset_cache()

  def reset_cache(self):
    self._cache = None

  @torch.no_grad()
  def norm(self, edge_index, n):
    loop = torch.arange(n, device=edge_index.device)
    src = torch.cat([edge_index[0], edge_index[1], loop])
    dst = torch.cat([edge_index[1], edge_index[0], loop])
    deg = torch.zeros(n, device=src.device).index_add(
        0, dst, torch.ones_like(dst, dtype=torch.float))
    inv = deg.clamp(min=1).rsqrt()
    return src, dst, inv[src] * inv[dst]

  def forward(self, x, edge_index):
    if self._cache is None:
      entry = self.norm(edge_index, x.shape[0])
      if self.cached:
        self._cache = entry
    else:
      entry = self._cache
    src, dst, weight = entry
    h = self.lin(x)
    out = torch.zeros_like(h).index_add(0, dst, h[src] * weight[:, None])
    return out + self.bias


class Encoder(nn.Module):

  def __init__(self, n_feat, hidden, n_out):
    super().__init__()
    self.conv1 = GCNConv(n_feat, hidden, cached=True)
    self.bn = nn.BatchNorm1d(hidden)
    self.conv2 = GCNConv(hidden, n_out, cached=True)

  def forward(self, x, edge_index):
    h = F.relu(self.bn(self.conv1(x, edge_index)))
    return self.conv2(h, edge_index)


class LinkModel(nn.Module):

  def __init__(self, n_feat, hidden=24, n_out=16):
    super().__init__()
    self.encoder = Encoder(n_feat, hidden, n_out)
    self.decoder = nn.Sequential(nn.Linear(n_out, 16), nn.ReLU(), nn.Linear(16, 1))

  def reset_cache(self):
    for m in self.modules():
      if isinstance(m, GCNConv):
        m.reset_cache()

  def score(self, z, pairs):
    return self.decoder(z[pairs[0]] * z[pairs[1]]).squeeze(-1)


class Trainer:

  def __init__(self, device):
    x, train_edges, val_edges = make_graph()
    self.device = device
    self.n = x.shape[0]
    self.x = x.to(device)
    self.train_edges = train_edges.to(device)
    self.val_edges = val_edges.to(device)
    self.model = LinkModel(x.shape[1]).to(device)
    self.optimizer = torch.optim.Adam(self.model.parameters(), lr=5e-3)
    self.gen = torch.Generator().manual_seed(7)

  def negatives(self, n):
    return torch.randint(0, self.n, (2, n), generator=self.gen).to(self.device)

  def train_step(self):
    self.model.train()
    pos = self.train_edges
    neg = self.negatives(pos.shape[1])
    self.optimizer.zero_grad()
    z = self.model.encoder(self.x, self.train_edges)
    logits = self.model.score(z, torch.cat([pos, neg], dim=1))
    label = torch.cat([torch.ones(pos.shape[1]), torch.zeros(neg.shape[1])])
    loss = F.binary_cross_entropy_with_logits(logits, label.to(self.device))
    loss.backward()
    self.optimizer.step()
    torch_xla.sync()
    return loss

  @torch.no_grad()
  def evaluate(self):
    self.model.eval()
    self.model.reset_cache()
    edges = torch.cat([self.train_edges, self.val_edges], dim=1)
    neg = self.negatives(self.val_edges.shape[1])
    z = self.model.encoder(self.x, edges)
    pos_score = self.model.score(z, self.val_edges)
    neg_score = self.model.score(z, neg)
    auc = (pos_score[:, None] > neg_score[None, :]).float().mean()
    self.model.reset_cache()
    torch_xla.sync()
    return auc


def main():
  torch.manual_seed(0)
  trainer = Trainer(torch_xla.device())
  torch_xla.sync()
  for epoch in range(2):
    losses = [trainer.train_step() for _ in range(3)]
    auc = trainer.evaluate()
    print(epoch, ' '.join(f'{l.item():.4f}' for l in losses), f'{auc.item():.3f}')


if __name__ == '__main__':
  main()
