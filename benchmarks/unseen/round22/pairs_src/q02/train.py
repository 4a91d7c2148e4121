import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    """Random acoustic features with frame labels."""

    def __init__(self, n, t, dim, classes):
        g = np.random.RandomState(3)
        self.x = g.randn(n, t, dim).astype(np.float32)
        self.y = g.randint(0, classes, size=(n, t))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, ffn):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.fc1 = nn.Linear(dim, ffn)
        self.fc2 = nn.Linear(ffn, dim)

    def attend(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        w = torch.softmax(q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5, dim=-1)
        return self.out((w @ v).transpose(1, 2).reshape(b, t, d))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Encoder(nn.Module):
    def __init__(self, in_dim, dim, heads, ffn, depth, classes, layerdrop):
        super().__init__()
        self.layerdrop = layerdrop
        self.proj = nn.Linear(in_dim, dim)
        self.pos = nn.Conv1d(dim, dim, 5, padding=2, groups=4)
        self.layers = nn.ModuleList([EncoderLayer(dim, heads, ffn) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        x = self.proj(x)
        x = x + F.gelu(self.pos(x.transpose(1, 2))).transpose(1, 2)
        for layer in self.layers:
            skip_probability = np.random.random()
            if not self.training or skip_probability > self.layerdrop:
                x = layer(x)
        return self.head(self.norm(x))


def train(args):
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    device = torch_xla.device()

    loader = DataLoader(Frames(24, 10, 8, 6), batch_size=4, drop_last=True)
    loader = pl.MpDeviceLoader(loader, device)
    model = Encoder(8, 16, 4, 32, args.depth, 6, args.layerdrop).to(device)
    model.train()

    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        loss.backward()
        xm.optimizer_step(optimizer)
        if i % 2 == 0:
            xm.add_step_closure(lambda s, l: print(f"[{s}] {l.item():.4f}"), args=(i, loss))


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--depth", type=int, default=3)
    p.add_argument("--layerdrop", type=float, default=0.15)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--seed", type=int, default=14)
    train(p.parse_args())
