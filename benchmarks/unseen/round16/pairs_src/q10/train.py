"""Self-supervised radar embedding: momentum-contrast style queue with hard-negative mining."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BATCH, DIM, QUEUE = 8, 12, 32


class Embedder(nn.Module):
    def __init__(self, bins=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(bins, 32), nn.LeakyReLU(0.1), nn.LayerNorm(32),
            nn.Linear(32, 32), nn.LeakyReLU(0.1), nn.Linear(32, DIM))

    def forward(self, x):
        return F.normalize(self.net(x), dim=1)


class NegativeBank:
    def __init__(self, device):
        self.data = F.normalize(torch.randn(QUEUE, DIM), dim=1).to(device)
        self.cursor = 0

    def push(self, keys):
        fresh = self.data.clone()
        fresh[self.cursor:self.cursor + keys.shape[0]] = keys
        self.data = fresh
        self.cursor = (self.cursor + keys.shape[0]) % QUEUE


def hard_count(step, total):
    """Keep fewer, harder negatives as training goes on."""
    keep = 1.0 - 0.5 * math.floor(2 * step / total) / 1
    return max(4, int(QUEUE * keep))


def sweep(step):
    g = torch.Generator().manual_seed(step)
    base = torch.randn(BATCH, 24, generator=g)
    return base + 0.1 * torch.randn(base.shape, generator=g), base + 0.1 * torch.randn(base.shape, generator=g)


def contrast(q, k, bank, keep, tau=0.2):
    pos = (q * k).sum(1, keepdim=True)
    neg, _ = (q @ bank.t()).topk(keep, dim=1)
    logits = torch.cat([pos, neg], 1) / tau
    return F.cross_entropy(logits, torch.zeros(BATCH, dtype=torch.long, device=q.device))


def main(steps=24):
    torch.manual_seed(12)
    device = torch_xla.device()
    student = Embedder().to(device)
    teacher = copy.deepcopy(student).requires_grad_(False)
    bank = NegativeBank(device)
    opt = torch.optim.SGD(student.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    torch_xla.sync()
    for step in range(steps):
        a, b = (v.to(device) for v in sweep(step))
        with torch.no_grad():
            for s, t in zip(student.parameters(), teacher.parameters()):
                t.mul_(0.99).add_(s, alpha=0.01)
            key = teacher(b)
        loss = contrast(student(a), key, bank.data, hard_count(step, steps))
        opt.zero_grad()
        loss.backward()
        opt.step()
        bank.push(key)
        torch_xla.sync()
        if step % 8 == 7:
            print(f"{step} loss {loss.item():.3f} cursor {bank.cursor}")


if __name__ == "__main__":
    main()
