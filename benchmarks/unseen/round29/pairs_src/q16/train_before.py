"""Ticket triage: tiny post-norm transformer over bags of padded tokens."""
import math

import torch
from torch import nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

VOCAB, DIM, HEADS, FF, CLASSES = 50, 24, 3, 32, 4
BATCH, LENGTH = 6, 12


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(DIM, DIM)
        self.key = nn.Linear(DIM, DIM)
        self.value = nn.Linear(DIM, DIM)
        self.proj = nn.Linear(DIM, DIM)

    def split(self, x):
        b, t, _ = x.shape
        return x.view(b, t, HEADS, DIM // HEADS).permute(0, 2, 1, 3)

    def forward(self, x, keep):
        q = self.split(self.query(x))
        k = self.split(self.key(x))
        v = self.split(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(DIM // HEADS)
        scores = scores.masked_fill(~keep[:, None, None, :], -1e4)
        ctx = torch.matmul(scores.softmax(-1), v)
        ctx = ctx.permute(0, 2, 1, 3).reshape(x.shape)
        return self.proj(ctx)


class EncoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = SelfAttention()
        self.norm1 = nn.LayerNorm(DIM)
        self.ff1 = nn.Linear(DIM, FF)
        self.ff2 = nn.Linear(FF, DIM)
        self.norm2 = nn.LayerNorm(DIM)

    def forward(self, x, keep):
        x = self.norm1(x + self.attention(x, keep))
        x = self.norm2(x + self.ff2(F.relu(self.ff1(x))))
        return x


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM)
        self.pos = nn.Parameter(torch.randn(LENGTH, DIM) * 0.02)
        self.layer = EncoderLayer()
        self.head = nn.Linear(DIM, CLASSES)

    def forward(self, ids, keep):
        x = self.tok(ids) + self.pos
        x = self.layer(x, keep)
        w = keep.float()
        pooled = (x * w.unsqueeze(-1)).sum(1) / w.sum(1, keepdim=True)
        return self.head(pooled)


def batches(n):
    g = torch.Generator().manual_seed(4)
    for _ in range(n):
        ids = torch.randint(1, VOCAB, (BATCH, LENGTH), generator=g)
        lens = torch.randint(3, LENGTH + 1, (BATCH, 1), generator=g)
        keep = torch.arange(LENGTH)[None] < lens
        yield ids * keep, keep, ids[:, 0] % CLASSES


def loss_fn(model, ids, keep, labels):
    return F.cross_entropy(model(ids, keep), labels)


def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Classifier().to(device)
    optimizer = make_optimizer(model)
    torch_xla.sync()
    for i, (ids, keep, labels) in enumerate(batches(4)):
        ids, keep, labels = ids.to(device), keep.to(device), labels.to(device)
        loss = loss_fn(model, ids, keep, labels)
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer, barrier=True)
        print(f"{i}: {loss.item():.5f}")


if __name__ == "__main__":
    main()
