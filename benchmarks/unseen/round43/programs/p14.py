"""Masked-frame pretraining of a small encoder on wrist accelerometer windows.

wav2vec-style recipe: conv front end, mask spans, pre-norm transformer with
LayerDrop, contrast against frames of the same window.
"""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset


def wrist_windows(n=192, samples=192, seed=11):
    rng = np.random.default_rng(seed)
    t = np.arange(samples) / 32.0
    freq = rng.uniform(0.4, 3.0, (n, 3, 1))
    phase = rng.uniform(0, 2 * math.pi, (n, 3, 1))
    x = np.sin(2 * math.pi * freq * t + phase)
    x += 0.15 * rng.normal(size=x.shape)
    return torch.from_numpy(x.astype(np.float32))


def span_mask(batch, frames, prob, width, rng):
    starts = rng.random((batch, frames)) < prob / width
    mask = np.zeros((batch, frames), dtype=bool)
    for k in range(width):
        mask[:, k:] |= starts[:, :frames - k]
    mask[:, 0] = True
    return torch.from_numpy(mask)


class FrontEnd(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.c1 = nn.Conv1d(3, dim, 8, stride=4, padding=2)
        self.c2 = nn.Conv1d(dim, dim, 4, stride=2, padding=1)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        x = F.relu(self.c2(F.relu(self.c1(x))))
        return self.norm(x.transpose(1, 2))


class Layer(nn.Module):
    """Attention and feed-forward in parallel, one projection in, one out."""

    def __init__(self, dim, heads, ff):
        super().__init__()
        self.heads, self.ff = heads, ff
        self.norm = nn.LayerNorm(dim)
        self.fan_in = nn.Linear(dim, 3 * dim + ff, bias=False)
        self.fan_out = nn.Linear(dim + ff, dim, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        qkv, hidden = self.fan_in(self.norm(x)).split([3 * d, self.ff], dim=-1)
        q, k, v = qkv.view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)), dim=-1)
        mixed = (att @ v).transpose(1, 2).reshape(b, t, d)
        return x + self.fan_out(torch.cat([mixed, F.relu(hidden)], dim=-1))


class Encoder(nn.Module):
    def __init__(self, dim=32, depth=6, heads=4, layerdrop=0.3):
        super().__init__()
        self.front = FrontEnd(dim)
        self.mask_token = nn.Parameter(torch.randn(dim) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, 24, dim) * 0.02)
        self.layers = nn.ModuleList(Layer(dim, heads, 2 * dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.layerdrop = layerdrop

    def forward(self, x, mask):
        feats = self.front(x)
        h = torch.where(mask.unsqueeze(-1), self.mask_token, feats) + self.pos
        for layer in self.layers:
            keep = np.random.random() >= self.layerdrop
            if keep or not self.training:
                h = layer(h)
        return self.norm(h), feats.detach()


def contrastive(pred, target, mask, temperature=0.1):
    pred, target = F.normalize(pred, dim=-1), F.normalize(target, dim=-1)
    logits = pred @ target.transpose(1, 2) / temperature
    gold = torch.arange(pred.size(1), device=pred.device).expand(pred.size(0), -1)
    per_frame = F.cross_entropy(logits.transpose(1, 2), gold, reduction="none")
    weight = mask.to(per_frame.dtype)
    return (per_frame * weight).sum() / weight.sum()


def main():
    torch.manual_seed(23)
    np.random.seed(23)
    rng = np.random.default_rng(23)
    device = xm.xla_device()

    loader = DataLoader(TensorDataset(wrist_windows()), batch_size=16,
                        shuffle=True, drop_last=True)
    model = Encoder().to(device).train()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    total = 2 * len(loader)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=total, cycle_momentum=False)

    done = 0
    losses = torch.zeros((), device=device)
    for epoch in range(2):
        for (x,) in loader:
            mask = span_mask(x.size(0), 24, 0.5, 4, rng).to(device)
            x = x.to(device)
            opt.zero_grad(set_to_none=False)
            pred, target = model(x, mask)
            loss = contrastive(pred, target, mask)
            loss.backward()
            opt.step()
            sched.step()
            losses += loss.detach()
            xm.mark_step()
            done += 1
            if done % 6 == 0:
                print(f"epoch {epoch} step {done:3d} "
                      f"loss {losses.item() / 6:.4f} lr {sched.get_last_lr()[0]:.2e}")
                losses = torch.zeros((), device=device)


if __name__ == "__main__":
    main()
