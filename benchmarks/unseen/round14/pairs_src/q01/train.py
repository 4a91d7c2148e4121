"""Momentum-contrast pretraining on accelerometer windows (wrist-worn IMU, 6 channels).

The encoder is a small 1-D CNN. Keys come from a slowly moving copy of it and
are kept in a fixed-size memory bank that provides the negatives.
"""
import argparse
import copy
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class MocoConfig:
    channels: int = 6
    window: int = 64
    width: int = 16
    embed_dim: int = 24
    bank_size: int = 128
    momentum: float = 0.99
    temperature: float = 0.2
    batch_size: int = 16
    lr: float = 0.03


class ImuEncoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.stem = nn.Conv1d(cfg.channels, cfg.width, 7, stride=2, padding=3)
        self.block = nn.Conv1d(cfg.width, 2 * cfg.width, 5, stride=2, padding=2)
        self.norm1 = nn.GroupNorm(4, cfg.width)
        self.norm2 = nn.GroupNorm(4, 2 * cfg.width)
        self.proj = nn.Sequential(
            nn.Linear(2 * cfg.width, 2 * cfg.width), nn.ReLU(),
            nn.Linear(2 * cfg.width, cfg.embed_dim))

    def forward(self, x):
        x = F.relu(self.norm1(self.stem(x)))
        x = F.relu(self.norm2(self.block(x)))
        return F.normalize(self.proj(x.mean(dim=-1)), dim=-1)


class MomentumContrast(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.query_encoder = ImuEncoder(cfg)
        self.key_encoder = copy.deepcopy(self.query_encoder)
        self.key_encoder.requires_grad_(False)
        bank = F.normalize(torch.randn(cfg.bank_size, cfg.embed_dim), dim=-1)
        self.register_buffer("bank", bank)
        self.bank_ptr = 0

    @torch.no_grad()
    def update_key_encoder(self):
        m = self.cfg.momentum
        for q, k in zip(self.query_encoder.parameters(), self.key_encoder.parameters()):
            k.mul_(m).add_(q, alpha=1.0 - m)

    @torch.no_grad()
    def enqueue(self, keys):
        n = keys.size(0)
        start = self.bank_ptr
        self.bank[start:start + n] = keys
        self.bank_ptr = (start + n) % self.cfg.bank_size

    def forward(self, view_q, view_k):
        q = self.query_encoder(view_q)
        with torch.no_grad():
            self.update_key_encoder()
            k = self.key_encoder(view_k)
        pos = (q * k).sum(dim=-1, keepdim=True)
        neg = q @ self.bank.clone().t()
        logits = torch.cat([pos, neg], dim=1) / self.cfg.temperature
        target = torch.zeros(q.size(0), dtype=torch.long, device=q.device)
        loss = F.cross_entropy(logits, target)
        self.enqueue(k)
        return loss


def two_views(windows, generator):
    """Jitter and per-channel scaling, drawn on the host."""
    views = []
    for _ in range(2):
        scale = 1.0 + 0.1 * torch.randn(windows.size(0), windows.size(1), 1, generator=generator)
        noise = 0.05 * torch.randn(windows.shape, generator=generator)
        views.append(windows * scale + noise)
    return views


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    cfg = MocoConfig()
    device = torch_xla.device()
    data = torch.randn(512, cfg.channels, cfg.window, generator=gen)

    model = MomentumContrast(cfg).to(device)
    optimizer = torch.optim.SGD(model.query_encoder.parameters(), lr=cfg.lr,
                                momentum=0.9, weight_decay=1e-4)

    for step in range(args.steps):
        idx = torch.randint(0, data.size(0), (cfg.batch_size,), generator=gen)
        view_q, view_k = two_views(data[idx], gen)
        loss = model(view_q.to(device), view_k.to(device))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        xm.mark_step()
        if step % 5 == 0:
            print(f"step {step:3d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
