"""Embedding learning with a cross-batch memory and a margin contrastive loss."""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class ProductViews:
    """P classes x K views per batch of a synthetic feature-vector catalogue."""

    def __init__(self, n_classes, dim, seed):
        self.rng = np.random.RandomState(seed)
        self.proto = self.rng.randn(n_classes, dim)
        self.n_classes, self.dim = n_classes, dim

    def batch(self, p, k):
        cls = self.rng.choice(self.n_classes, p, replace=False)
        y = np.repeat(cls, k)
        x = self.proto[y] + 0.8 * self.rng.randn(p * k, self.dim)
        return torch.from_numpy(x.astype("float32")), torch.from_numpy(y)


class Embedder(nn.Module):
    def __init__(self, n_in, n_out=16, hidden=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, hidden), nn.BatchNorm1d(hidden), nn.ReLU(),
                                 nn.Linear(hidden, n_out))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


class CrossBatchMemory:
    def __init__(self, size, dim, device):
        self.size = size
        self.feats = torch.zeros(0, dim, device=device)
        self.labels = torch.zeros(0, dtype=torch.long, device=device)

    def enqueue(self, feats, labels):
        drop = max(0, len(self) + feats.size(0) - self.size)
        self.feats = torch.cat([self.feats[drop:], feats.detach()])
        self.labels = torch.cat([self.labels[drop:], labels])

    def __len__(self):
        return self.feats.size(0)


class ContrastiveLoss(nn.Module):
    def __init__(self, pos_margin=0.9, neg_margin=0.4):
        super().__init__()
        self.pos_margin, self.neg_margin = pos_margin, neg_margin

    def forward(self, feats, labels, ref, ref_labels, exclude_self):
        sim = feats @ ref.t()
        same = labels[:, None] == ref_labels[None]
        if exclude_self:
            same_pos = same & ~torch.eye(len(labels), dtype=torch.bool, device=same.device)
        else:
            same_pos = same
        pos = F.relu(self.pos_margin - sim) * same_pos
        neg = F.relu(sim - self.neg_margin) * ~same
        pos_loss = pos.sum() / same_pos.sum().clamp(min=1)
        hard = neg[neg > 0]
        neg_loss = hard.sum() / max(hard.numel(), 1)
        return pos_loss + neg_loss


class MemoryLoss(nn.Module):
    """Same margins against the memory, averaged over all pairs."""

    def __init__(self, pos_margin=0.9, neg_margin=0.4):
        super().__init__()
        self.pos_margin, self.neg_margin = pos_margin, neg_margin

    def forward(self, feats, labels, memory):
        sim = feats @ memory.feats.t()
        same = (labels[:, None] == memory.labels[None]).float()
        pos = (F.relu(self.pos_margin - sim) * same).sum() / same.sum().clamp(min=1.0)
        neg = (F.relu(sim - self.neg_margin) * (1 - same)).mean()
        return pos + neg


@torch.no_grad()
def recall_at_1(model, x, y):
    model.eval()
    z = model(x)
    sim = z @ z.t() - 2.0 * torch.eye(len(y), device=z.device)
    hit = (y[sim.argmax(1)] == y).float().mean()
    xm.mark_step()
    model.train()
    return hit.item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=30)
    ap.add_argument("--p", type=int, default=8)
    ap.add_argument("--k", type=int, default=3)
    ap.add_argument("--memory", type=int, default=4096)
    ap.add_argument("--memory-start", type=int, default=3)
    args = ap.parse_args()

    torch.manual_seed(41)
    device = torch_xla.device()
    data = ProductViews(60, 32, seed=41)
    model = Embedder(32).to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    batch_loss, memory_loss = ContrastiveLoss(), MemoryLoss()
    memory = CrossBatchMemory(args.memory, 16, device)
    val_x, val_y = data.batch(30, 4)
    val_x, val_y = val_x.to(device), val_y.to(device)

    for step in range(args.steps):
        x, y = data.batch(args.p, args.k)
        x, y = x.to(device), y.to(device)
        z = model(x)
        loss = batch_loss(z, y, z, y, exclude_self=True)
        if step >= args.memory_start:
            loss = loss + 0.5 * memory_loss(z, y, memory)
        opt.zero_grad()
        loss.backward()
        opt.step()
        memory.enqueue(z, y)
        xm.mark_step()

        if (step + 1) % 10 == 0:
            r1 = recall_at_1(model, val_x, val_y)
            print(f"step {step + 1:3d}  loss {loss.item():.4f}  R@1 {r1:.3f}  memory {len(memory)}")


if __name__ == "__main__":
    main()
