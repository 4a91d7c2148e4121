"""Metric learning with a cross-batch memory (XBM) on small grey images."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class ClassBalancedStream:
    """Yields P classes x K images; every class has its own smooth template."""

    def __init__(self, num_classes, p, k, size=16, seed=0):
        self.rng = np.random.RandomState(seed)
        base = self.rng.randn(num_classes, 1, size // 4, size // 4)
        self.templates = base.repeat(4, axis=2).repeat(4, axis=3).astype(np.float32)
        self.p, self.k, self.num_classes = p, k, num_classes

    def next(self):
        classes = self.rng.choice(self.num_classes, self.p, replace=False)
        labels = np.repeat(classes, self.k)
        noise = self.rng.randn(len(labels), 1, 16, 16).astype(np.float32)
        return torch.from_numpy(self.templates[labels] + 0.7 * noise), torch.from_numpy(labels)


class EmbeddingNet(nn.Module):
    def __init__(self, width=16, dim=32):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.block1 = nn.Sequential(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU())
        self.block2 = nn.Sequential(nn.Conv2d(2 * width, 2 * width, 3, stride=2, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU())
        self.proj = nn.Linear(2 * width, dim)

    def forward(self, x):
        x = self.block2(self.block1(self.stem(x)))
        return F.normalize(self.proj(x.mean(dim=(2, 3))), dim=1)


class CrossBatchMemory:
    def __init__(self, size, dim, device):
        self.size = size
        self.feats = torch.zeros(0, dim, device=device)
        self.labels = torch.zeros(0, dtype=torch.long, device=device)

    def enqueue(self, feats, labels):
        self.feats = torch.cat([feats.detach(), self.feats])[:self.size]
        self.labels = torch.cat([labels, self.labels])[:self.size]

    def get(self):
        return self.feats, self.labels


class ContrastiveLoss(nn.Module):
    def __init__(self, margin=0.5):
        super().__init__()
        self.margin = margin

    def forward(self, q, q_labels, refs, ref_labels):
        sim = q @ refs.t()
        same = (q_labels[:, None] == ref_labels[None, :]).float()
        pos = (1.0 - sim) * same
        neg = F.relu(sim - self.margin) * (1.0 - same)
        return (pos.sum() + neg.sum()) / q.shape[0]


def cosine_lr(step, total, base):
    return base * 0.5 * (1 + math.cos(math.pi * step / total))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=32)
    ap.add_argument("--memory", type=int, default=448)
    ap.add_argument("--xbm-weight", type=float, default=0.5)
    ap.add_argument("--lr", type=float, default=0.01)
    args = ap.parse_args()

    torch.manual_seed(0)
    device = torch_xla.device()
    stream = ClassBalancedStream(num_classes=40, p=8, k=4)
    net = EmbeddingNet().to(device)
    opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    criterion = ContrastiveLoss()
    memory = CrossBatchMemory(args.memory, 32, device)

    for step in range(args.steps):
        for g in opt.param_groups:
            g["lr"] = cosine_lr(step, args.steps, args.lr)
        images, labels = stream.next()
        images, labels = images.to(device), labels.to(device)

        emb = net(images)
        memory.enqueue(emb, labels)
        loss = criterion(emb, labels, emb, labels)
        mem_feats, mem_labels = memory.get()
        loss = loss + args.xbm_weight * criterion(emb, labels, mem_feats, mem_labels)

        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        if step % 8 == 0 or step == args.steps - 1:
            print(f"step {step:3d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
