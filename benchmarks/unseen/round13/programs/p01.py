"""Momentum contrast pre-training on synthetic image crops (small ResNet-ish encoder)."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BATCH = 8
DIM = 32
BANK = 112
STEPS = 36
TEMPERATURE = 0.2


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.norm1 = nn.GroupNorm(4, cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(4, cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.skip(x))


class Encoder(nn.Module):
    def __init__(self, width=8, dim=DIM):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 1, 1)
        self.layers = nn.Sequential(Block(width, width * 2, 2), Block(width * 2, width * 4, 2))
        self.head = nn.Sequential(nn.Linear(width * 4, 64), nn.ReLU(), nn.Linear(64, dim))

    def forward(self, x):
        x = self.layers(F.relu(self.stem(x)))
        return F.normalize(self.head(x.mean((2, 3))), dim=1)


class MoCo(nn.Module):
    def __init__(self, encoder, bank_size, m=0.99, t=TEMPERATURE):
        super().__init__()
        self.m, self.t, self.bank_size = m, t, bank_size
        self.query = encoder
        self.key = copy.deepcopy(encoder)
        for p in self.key.parameters():
            p.requires_grad_(False)
        self.register_buffer("bank", F.normalize(torch.randn(bank_size, DIM), dim=1))
        self.ptr = 0

    @torch.no_grad()
    def update_key_encoder(self):
        for pq, pk in zip(self.query.parameters(), self.key.parameters()):
            pk.mul_(self.m).add_(pq, alpha=1 - self.m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.shape[0]
        assert self.bank_size % n == 0
        self.bank[self.ptr:self.ptr + n] = keys
        self.ptr = (self.ptr + n) % self.bank_size

    def forward(self, x_q, x_k):
        q = self.query(x_q)
        with torch.no_grad():
            self.update_key_encoder()
            k = self.key(x_k)
        pos = (q * k).sum(1, keepdim=True)
        neg = q @ self.bank.clone().detach().t()
        logits = torch.cat([pos, neg], dim=1) / self.t
        target = torch.zeros(q.shape[0], dtype=torch.long, device=q.device)
        loss = F.cross_entropy(logits, target)
        self.enqueue(k)
        acc = (logits.argmax(1) == 0).float().mean()
        return loss, acc


def two_views(gen, n):
    base = torch.randn(n, 3, 16, 16, generator=gen)
    v1 = base + 0.1 * torch.randn(base.shape, generator=gen)
    v2 = base.flip(-1) + 0.1 * torch.randn(base.shape, generator=gen)
    return v1, v2


def cosine_lr(optimizer, step, base=0.05):
    lr = base * 0.5 * (1 + math.cos(math.pi * step / (STEPS + 1)))
    for g in optimizer.param_groups:
        g["lr"] = lr


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    gen = torch.Generator().manual_seed(1)
    model = MoCo(Encoder(), BANK).to(device)
    optimizer = torch.optim.SGD(model.query.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    for step in range(STEPS):
        cosine_lr(optimizer, step)
        v1, v2 = two_views(gen, BATCH)
        loss, acc = model(v1.to(device), v2.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()
        if step % 6 == 0:
            print(f"step {step:3d} loss {loss.item():.4f} acc {acc.item():.3f}")
    xm.wait_device_ops()
    print("done")


if __name__ == "__main__":
    main()
