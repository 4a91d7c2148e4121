"""Soil property regression from near-infrared spectra: staged fine-tuning of a spectral backbone."""
import argparse
from dataclasses import dataclass
from typing import List

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
import torch_xla

BANDS = 96
TARGETS = ("organic_carbon", "clay", "ph")


@dataclass
class Stage:
    name: str
    open_groups: List[str]
    updates: int
    lr: float
    weight_decay: float


STAGES = [
    Stage("head", ["head"], 10, 8e-3, 0.0),
    Stage("top", ["head", "top"], 12, 3e-3, 1e-2),
    Stage("all", ["head", "top", "stem"], 14, 1e-3, 1e-2),
]


def spectra(n, seed):
    rng = np.random.default_rng(seed)
    prop = rng.normal(size=(n, len(TARGETS))).astype(np.float32)
    grid = np.linspace(0, 1, BANDS, dtype=np.float32)
    centres = np.array([0.2, 0.55, 0.8], np.float32)
    peaks = np.exp(-((grid[None] - centres[:, None]) ** 2) / 0.004)
    x = 0.5 + 0.2 * grid[None] + 0.15 * prop @ peaks
    x = x * rng.uniform(0.8, 1.2, (n, 1)) + rng.normal(0, 0.01, x.shape)
    x = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(prop)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 5, padding=2)
        self.norm = nn.GroupNorm(4, width)

    def forward(self, x):
        return x + F.gelu(self.norm(self.conv(x)))


class SpectralNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(1, width, 7, stride=2, padding=3), nn.GELU(), Residual(width))
        self.top = nn.Sequential(nn.Conv1d(width, 2 * width, 5, stride=2, padding=2), nn.GELU(), Residual(2 * width))
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(2 * width, width), nn.GELU(), nn.Linear(width, len(TARGETS)))

    def forward(self, x):
        return self.head(self.top(self.stem(x[:, None])).mean(-1))

    def open_only(self, groups):
        for name, child in self.named_children():
            child.requires_grad_(name in groups)
        return [p for p in self.parameters() if p.requires_grad]


def endless(loader):
    while True:
        yield from loader


class StagedTrainer:
    def __init__(self, args):
        self.args = args
        self.device = torch_xla.device()
        self.model = SpectralNet().to(self.device)
        x, y = spectra(args.n_train, 1)
        self.feed = endless(DataLoader(TensorDataset(x, y), args.micro_batch, shuffle=True, drop_last=True))
        xv, yv = spectra(args.n_valid, 2)
        self.valid = DataLoader(TensorDataset(xv, yv), args.micro_batch, drop_last=True)

    def micro_batch(self):
        x, y = next(self.feed)
        x, y = x.to(self.device), y.to(self.device)
        loss = F.smooth_l1_loss(self.model(x), y) / self.args.accumulate
        loss.backward()
        return loss.detach()

    def update(self, params, optimizer):
        total = torch.zeros((), device=self.device)
        for k in range(self.args.accumulate):
            total += self.micro_batch()
            if k + 1 < self.args.accumulate:
                torch_xla.sync()
        nn.utils.clip_grad_norm_(params, 2.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch_xla.sync()
        return total

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        err = torch.zeros(len(TARGETS), device=self.device)
        torch_xla.sync()
        for x, y in self.valid:
            x, y = x.to(self.device), y.to(self.device)
            err += (self.model(x) - y).square().mean(0)
            torch_xla.sync()
        self.model.train()
        return (err.cpu() / len(self.valid)).sqrt().tolist()

    def run(self):
        for stage in STAGES:
            params = self.model.open_only(stage.open_groups)
            optimizer = torch.optim.AdamW(params, lr=stage.lr, weight_decay=stage.weight_decay)
            schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.9, 0.2, total_iters=stage.updates)
            for u in range(1, stage.updates + 1):
                total = self.update(params, optimizer)
                schedule.step()
                if u % 5 == 0:
                    print(f"[{stage.name}] update {u:2d}  loss {total.item():.4f}")
            rmse = self.validate()
            print(f"[{stage.name}] " + "  ".join(f"{t} rmse {r:.3f}" for t, r in zip(TARGETS, rmse)))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--n-train", type=int, default=480)
    ap.add_argument("--n-valid", type=int, default=96)
    ap.add_argument("--micro-batch", type=int, default=16)
    ap.add_argument("--accumulate", type=int, default=3)
    args = ap.parse_args()
    torch.manual_seed(13)
    StagedTrainer(args).run()


if __name__ == "__main__":
    main()
