"""Batch-hard metric learning on image crops (PyTorch/XLA)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


class Config:
  image_size = 16
  n_classes_per_batch = 6
  n_per_class = 4
  width = 8
  embed_dim = 16
  margin = 0.3
  lr = 1e-3
  weight_decay = 5e-3
  steps = 4


class ConvBlock(nn.Module):

  def __init__(self, c_in, c_out, stride):
    super().__init__()
    self.conv = nn.Conv2d(c_in, c_out, 3, stride=stride, padding=1, bias=False)
    self.norm = nn.GroupNorm(4, c_out)

  def forward(self, x):
    return F.relu(self.norm(self.conv(x)))


class EmbeddingNet(nn.Module):

  def __init__(self, cfg):
    super().__init__()
    w = cfg.width
    self.stem = ConvBlock(3, w, 1)
    self.stage1 = ConvBlock(w, 2 * w, 2)
    self.stage2 = ConvBlock(2 * w, 2 * w, 2)
    self.neck = nn.Linear(2 * w, cfg.embed_dim)

  def forward(self, x):
    h = self.stage2(self.stage1(self.stem(x)))
    return F.normalize(self.neck(h.mean(dim=(2, 3))), dim=-1)


def pairwise_distance(e):
  sq = 2.0 - 2.0 * (e @ e.t())
  return (sq.clamp(min=0.0) + 1e-6).sqrt()


def batch_hard_loss(embeddings, labels, cfg):
  dist = pairwise_distance(embeddings)
  same = labels[:, None] == labels[None, :]
  eye = torch.eye(labels.shape[0], dtype=torch.bool, device=labels.device)
  hardest_positive = dist.masked_fill(~same | eye, -1e4).amax(dim=1)
  hardest_negative = dist.masked_fill(same, 1e4).amin(dim=1)
  return F.relu(hardest_positive - hardest_negative + cfg.margin).mean()


def build_optimizer(model, cfg):
  return torch.optim.AdamW(
      model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)


class PKSampler:

  def __init__(self, cfg, seed=0):
    self.cfg = cfg
    self.gen = torch.Generator().manual_seed(seed)
    s = cfg.image_size
    self.prototypes = torch.randn(20, 3, s, s, generator=self.gen)

  def draw(self):
    c = self.cfg
    classes = torch.randperm(20, generator=self.gen)[:c.n_classes_per_batch]
    labels = classes.repeat_interleave(c.n_per_class)
    noise = torch.randn(len(labels), 3, c.image_size, c.image_size,
                        generator=self.gen)
    return self.prototypes[labels] + noise, labels


def main():
  cfg = Config()
  torch.manual_seed(1)
  device = torch_xla.device()
  model = EmbeddingNet(cfg).to(device)
  optimizer = build_optimizer(model, cfg)
  sampler = PKSampler(cfg)
  torch_xla.sync()
  losses = []
  for _ in range(cfg.steps):
    images, labels = (t.to(device) for t in sampler.draw())
    optimizer.zero_grad()
    loss = batch_hard_loss(model(images), labels, cfg)
    loss.backward()
    optimizer.step()
    torch_xla.sync()
    losses.append(loss)
  print(' '.join(f'{l.item():.4f}' for l in losses))


if __name__ == '__main__':
  main()
