# Metric learning for product retrieval: contrastive loss plus a cross-batch memory.
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    classes: int = 40
    classes_per_batch: int = 8
    samples_per_class: int = 2
    feature: int = 96
    dim: int = 32
    memory: int = 1024
    memory_start: int = 4
    memory_weight: float = 0.5
    margin: float = 0.4
    iters: int = 26
    lr: float = 3e-3


class ProductFeatures:
    """Frozen-backbone features (class template plus noise), class-balanced batches."""

    def __init__(self, cfg, seed=0):
        self.cfg = cfg
        self.gen = torch.Generator().manual_seed(seed)
        self.templates = torch.randn(cfg.classes, cfg.feature, generator=self.gen)

    def batch(self):
        cfg = self.cfg
        picked = torch.randperm(cfg.classes, generator=self.gen)[: cfg.classes_per_batch]
        labels = picked.repeat_interleave(cfg.samples_per_class)
        noise = torch.randn(len(labels), cfg.feature, generator=self.gen)
        return self.templates[labels] + 0.8 * noise, labels


class Embedder(nn.Module):
    """Projection head trained on top of the frozen backbone."""

    def __init__(self, feature, dim):
        super().__init__()
        self.norm = nn.LayerNorm(feature)
        self.hidden = nn.Linear(feature, 64)
        self.proj = nn.Linear(64, dim)

    def forward(self, x):
        h = F.silu(self.hidden(self.norm(x)))
        return F.normalize(self.proj(h), dim=1)


class XBM:
    def __init__(self, size, dim, device):
        self.K = size
        self.feats = torch.zeros(size, dim, device=device)
        self.targets = torch.full((size,), -1, dtype=torch.long, device=device)
        self.ptr = 0

    def get(self):
        return self.feats, self.targets

    def enqueue_dequeue(self, feats, targets):
        q = targets.shape[0]
        if self.ptr + q > self.K:
            self.feats[-q:] = feats
            self.targets[-q:] = targets
            self.ptr = 0
        else:
            self.feats[self.ptr : self.ptr + q] = feats
            self.targets[self.ptr : self.ptr + q] = targets
            self.ptr += q


def contrastive(anchors, a_labels, refs, r_labels, margin):
    sim = anchors @ refs.t()
    same = (a_labels[:, None] == r_labels[None, :]).float()
    valid = (r_labels >= 0).float()[None, :]
    not_self = (sim < 1 - 1e-5).float()
    pos = same * valid * not_self
    neg = (1 - same) * valid
    pos_loss = ((1 - sim) * pos).sum() / pos.sum().clamp(min=1)
    hinge = F.relu(sim - margin)
    active = (hinge > 0).float() * neg
    neg_loss = (hinge * neg).sum() / active.sum().clamp(min=1)
    return pos_loss + neg_loss


def train(cfg):
    device = torch_xla.device()
    data = ProductFeatures(cfg)
    model = Embedder(cfg.feature, cfg.dim).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-4)
    xbm = XBM(cfg.memory, cfg.dim, device)

    for it in range(cfg.iters):
        inputs, labels = data.batch()
        inputs, labels = inputs.to(device), labels.to(device)
        feats = model(inputs)
        loss = contrastive(feats, labels, feats, labels, cfg.margin)

        xbm.enqueue_dequeue(feats.detach(), labels)
        if it >= cfg.memory_start:
            mem_feats, mem_labels = xbm.get()
            loss = loss + cfg.memory_weight * contrastive(
                feats, labels, mem_feats, mem_labels, cfg.margin
            )

        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        xm.mark_step()

        if (it + 1) % 8 == 0:
            xm.master_print(f"iter {it + 1:3d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(11)
    train(Config())
