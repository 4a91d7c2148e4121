"""Momentum-contrast pretraining of a small image encoder."""
import argparse
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--queue-size", type=int, default=96)
    p.add_argument("--dim", type=int, default=16)
    p.add_argument("--momentum", type=float, default=0.99)
    p.add_argument("--temperature", type=float, default=0.2)
    p.add_argument("--log-every", type=int, default=10)
    return p.parse_args()


class Encoder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
        )
        self.head = nn.Linear(16, dim)

    def forward(self, x):
        x = self.features(x).mean(dim=(2, 3))
        return F.normalize(self.head(x), dim=1)


class MomentumContrast(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.m = args.momentum
        self.t = args.temperature
        self.size = args.queue_size
        self.query_net = Encoder(args.dim)
        self.key_net = copy.deepcopy(self.query_net)
        for p in self.key_net.parameters():
            p.requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(args.dim, args.queue_size), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def update_key_net(self):
        for q, k in zip(self.query_net.parameters(), self.key_net.parameters()):
            k.mul_(self.m).add_(q, alpha=1.0 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        ptr = int(self.queue_ptr)
        assert self.size % n == 0
        self.queue[:, ptr:ptr + n] = keys.t()
        self.queue_ptr[0] = (ptr + n) % self.size

    def forward(self, view_q, view_k):
        q = self.query_net(view_q)
        with torch.no_grad():
            self.update_key_net()
            k = self.key_net(view_k)
        pos = (q * k).sum(dim=1, keepdim=True)
        neg = q @ self.queue.clone().detach()
        logits = torch.cat([pos, neg], dim=1) / self.t
        target = torch.zeros(q.shape[0], dtype=torch.long, device=q.device)
        self.enqueue(k)
        return logits, target


class TwoViews:
    """Random images, two noisy views each (fixed size)."""

    def __init__(self, n, size=24, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.images = torch.rand(n, 3, size, size, generator=g)
        self.g = g

    def augment(self, x):
        gain = 0.8 + 0.4 * torch.rand(x.shape[0], 1, 1, 1, generator=self.g)
        noise = 0.1 * torch.randn(x.shape, generator=self.g)
        flip = torch.rand(x.shape[0], 1, 1, 1, generator=self.g) < 0.5
        return torch.where(flip, x.flip(-1), x) * gain + noise

    def batch(self, n):
        idx = torch.randint(0, len(self.images), (n,), generator=self.g)
        x = self.images[idx]
        return self.augment(x), self.augment(x)


def cosine_lr(step, total, base):
    return 0.5 * base * (1.0 + math.cos(math.pi * (step + 1) / (total + 1)))


def main():
    args = parse_args()
    torch.manual_seed(7)
    device = torch_xla.device()
    model = MomentumContrast(args).to(device)
    opt = torch.optim.SGD(model.query_net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    data = TwoViews(128)
    torch_xla.sync()

    for step in range(args.steps):
        for group in opt.param_groups:
            group["lr"] = cosine_lr(step, args.steps, 0.05)
        a, b = data.batch(args.batch_size)
        logits, target = model(a.to(device), b.to(device))
        loss = F.cross_entropy(logits, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
        if (step + 1) % args.log_every == 0:
            print(f"step {step + 1} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
