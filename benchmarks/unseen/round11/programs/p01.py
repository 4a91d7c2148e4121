"""Frame-level phone classification on log-mel features with a small transformer encoder."""
import argparse
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


class ConvSubsampler(nn.Module):
    def __init__(self, n_mels, dim):
        super().__init__()
        self.conv1 = nn.Conv1d(n_mels, dim, 3, stride=2, padding=1)
        self.conv2 = nn.Conv1d(dim, dim, 3, stride=2, padding=1)

    def forward(self, x):
        x = F.gelu(self.conv1(x.transpose(1, 2)))
        x = F.gelu(self.conv2(x))
        return x.transpose(1, 2)


class EncoderLayer(nn.Module):
    def __init__(self, dim, heads, ffn, dropout):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.ff1 = nn.Linear(dim, ffn)
        self.ff2 = nn.Linear(ffn, dim)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)), dim=-1)
        y = (att @ v).transpose(1, 2).reshape(b, t, d)
        x = x + self.dropout(self.proj(y))
        return x + self.dropout(self.ff2(F.gelu(self.ff1(self.norm2(x)))))


class SpeechEncoder(nn.Module):
    def __init__(self, n_mels=20, dim=32, depth=4, heads=4, n_phones=12, layerdrop=0.2):
        super().__init__()
        self.frontend = ConvSubsampler(n_mels, dim)
        self.pos = nn.Parameter(torch.zeros(1, 64, dim))
        self.layers = nn.ModuleList([EncoderLayer(dim, heads, 2 * dim, 0.1) for _ in range(depth)])
        self.layerdrop = layerdrop
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, n_phones)

    def forward(self, feats):
        x = self.frontend(feats)
        x = x + self.pos[:, :x.size(1)]
        for layer in self.layers:
            drop_prob = np.random.random()
            if not self.training or drop_prob > self.layerdrop:
                x = layer(x)
        return self.head(self.norm(x))


def spec_augment(feats, width=4):
    start = random.randint(0, feats.size(2) - width)
    feats = feats.clone()
    feats[:, :, start:start + width] = 0.0
    return feats


def make_batch(batch_size, frames=64, n_mels=20, n_phones=12):
    phones = torch.randint(0, n_phones, (batch_size, frames // 4))
    base = F.one_hot(phones, n_mels).float().repeat_interleave(4, dim=1)
    return spec_augment(base + 0.3 * torch.randn(batch_size, frames, n_mels)), phones


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=18)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=3)
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    device = torch_xla.device()
    model = SpeechEncoder().to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 8))

    for step in range(args.steps):
        feats, phones = make_batch(args.batch_size)
        feats, phones = feats.to(device), phones.to(device)
        optimizer.zero_grad()
        logits = model(feats)
        loss = F.cross_entropy(logits.flatten(0, 1), phones.flatten())
        loss.backward()
        optimizer.step()
        scheduler.step()
        xm.mark_step()
        if step % 5 == 0:
            print(f"step {step:3d} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
