"""Sleep staging from 30 s EEG epochs: patch embedding, one transformer block, 5 classes."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

LEADS, LEN, PATCH, D, HEADS, STAGES = 2, 240, 20, 32, 4, 5


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(D)
        self.query = nn.Linear(D, D)
        self.key = nn.Linear(D, D)
        self.value = nn.Linear(D, D)
        self.proj = nn.Linear(D, D)
        self.norm2 = nn.LayerNorm(D)
        self.fc1 = nn.Linear(D, 2 * D)
        self.fc2 = nn.Linear(2 * D, D)

    def forward(self, x):
        B, N, C = x.shape
        h = self.norm1(x)
        q = self.query(h).view(B, N, HEADS, C // HEADS).transpose(1, 2)
        k = self.key(h).view(B, N, HEADS, C // HEADS).transpose(1, 2)
        v = self.value(h).view(B, N, HEADS, C // HEADS).transpose(1, 2)
        att = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(C // HEADS)
        att = F.softmax(att, dim=-1)
        y = torch.matmul(att, v).transpose(1, 2).contiguous().view(B, N, C)
        x = x + self.proj(y)
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class SleepNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Conv1d(LEADS, D, PATCH, stride=PATCH)
        self.pos = nn.Parameter(0.02 * torch.randn(1, LEN // PATCH, D))
        self.block = Block()
        self.norm = nn.LayerNorm(D)
        self.head = nn.Linear(D, STAGES)

    def forward(self, x):
        x = self.embed(x).transpose(1, 2) + self.pos
        x = self.block(x)
        x = self.norm(x).mean(dim=1)
        return self.head(x)


def loss_fn(logits, y, weight):
    return F.cross_entropy(logits, y, weight=weight)


def optimizer_for(model):
    decay, no_decay = [], []
    for name, p in model.named_parameters():
        if name.endswith("bias") or "norm" in name or name == "pos":
            no_decay.append(p)
        else:
            decay.append(p)
    return torch.optim.SGD([{"params": decay, "weight_decay": 1e-4},
                            {"params": no_decay, "weight_decay": 0.0}], lr=0.03, momentum=0.9)


def epochs_of(n, rng, batch=8):
    for _ in range(n):
        y = rng.integers(0, STAGES, batch)
        t = np.arange(LEN) / 20.0
        x = np.sin(t[None, None] * (1 + y[:, None, None])) + 0.3 * rng.standard_normal((batch, LEADS, LEN))
        yield torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)


def main(steps=5):
    torch.manual_seed(4)
    dev = xm.xla_device()
    model = SleepNet().to(dev)
    weight = torch.tensor([1.0, 2.5, 0.7, 1.6, 1.2], device=dev)
    opt = optimizer_for(model)
    for i, (x, y) in enumerate(epochs_of(steps, np.random.default_rng(9))):
        x, y = x.to(dev), y.to(dev)
        opt.zero_grad()
        loss = loss_fn(model(x), y, weight)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        torch_xla.sync()
        print(i, f"{loss.item():.6f}")
    return model


if __name__ == "__main__":
    main()
