"""Raman spectra of minerals: a 1-d U-Net that removes fluorescence background, scored with torchmetrics."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.regression import CosineSimilarity, MeanAbsoluteError, R2Score

BANDS = 128


class Rruff(Dataset):
    """Lorentzian line lists of a few minerals with polynomial background and shot noise."""

    lines = {
        "quartz": [(0.13, 1.0), (0.21, 0.35), (0.46, 0.2)],
        "calcite": [(0.28, 0.5), (0.71, 0.25), (0.9, 1.0)],
        "gypsum": [(0.41, 0.3), (0.62, 0.2), (0.84, 1.0)],
        "zircon": [(0.2, 0.4), (0.36, 0.6), (0.83, 1.0)],
        "barite": [(0.45, 0.55), (0.61, 0.3), (0.82, 1.0)],
    }

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        x = np.linspace(0, 1, BANDS)
        names = sorted(self.lines)
        self.raw, self.clean = [], []
        for _ in range(n):
            spec = np.zeros(BANDS)
            for name in rng.choice(names, 2, replace=False):
                frac = rng.uniform(0.3, 1.0)
                for pos, height in self.lines[name]:
                    w = rng.uniform(0.008, 0.02)
                    spec += frac * height * w ** 2 / ((x - pos - rng.normal(0, 0.002)) ** 2 + w ** 2)
            coef = rng.normal(0, 1, 4)
            bg = np.abs(np.polyval(coef, x)) + rng.uniform(0.5, 2.0)
            noisy = spec + bg + rng.normal(0, 0.05, BANDS)
            self.raw.append((noisy / noisy.max()).astype(np.float32))
            self.clean.append((spec / noisy.max()).astype(np.float32))

    def __len__(self):
        return len(self.raw)

    def __getitem__(self, i):
        return self.raw[i], self.clean[i]


def block(cin, cout):
    return nn.Sequential(
        nn.Conv1d(cin, cout, 7, padding=3), nn.GroupNorm(4, cout), nn.SiLU(),
        nn.Conv1d(cout, cout, 3, padding=1), nn.SiLU(),
    )


class UNet1d(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.down1, self.down2 = block(1, width), block(width, 2 * width)
        self.mid = block(2 * width, 2 * width)
        self.up2, self.up1 = block(4 * width, width), block(2 * width, width)
        self.out = nn.Conv1d(width, 1, 1)
        self.pool = nn.MaxPool1d(2)

    @staticmethod
    def grow(x):
        return x.repeat_interleave(2, dim=-1)

    def forward(self, x):
        a = self.down1(x.unsqueeze(1))
        b = self.down2(self.pool(a))
        c = self.mid(self.pool(b))
        b = self.up2(torch.cat([self.grow(c), b], 1))
        a = self.up1(torch.cat([self.grow(b), a], 1))
        return self.out(a).squeeze(1)


class Scores:
    def __init__(self, device):
        self.loss = MeanMetric().to(device)
        self.fit = MetricCollection({
            "mae": MeanAbsoluteError(),
            "r2": R2Score(),
            "match": CosineSimilarity(reduction="mean"),
        }).to(device)

    def update(self, loss, pred, target):
        self.loss.update(loss.detach())
        pred, target = pred.detach(), target.detach()
        self.fit["mae"].update(pred, target)
        self.fit["r2"].update(pred.flatten(), target.flatten())
        self.fit["match"].update(pred, target)

    def report(self):
        values = {name: metric.compute() for name, metric in self.fit.items()}
        values["loss"] = self.loss.compute()
        return {k: float(v) for k, v in values.items()}


def train(epochs=2, batch_size=8, log_every=3, lr=3e-3):
    torch.manual_seed(8)
    device = torch_xla.device()
    loader = DataLoader(Rruff(168, seed=8), batch_size=batch_size, shuffle=True, drop_last=True)
    model = UNet1d().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-3)
    total = epochs * len(loader)
    lr_fn = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: 0.55 + 0.45 * math.cos(math.pi * s / total))
    scores = Scores(device)

    step = 0
    for _ in range(epochs):
        for raw, clean in loader:
            raw, clean = raw.to(device), clean.to(device)
            pred = model(raw)
            loss = nn.functional.smooth_l1_loss(pred, clean, beta=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
            lr_fn.step()
            scores.update(loss, pred, clean)
            torch_xla.sync()
            step += 1
            if step % log_every == 0:
                r = scores.report()
                print(f"{step:3d} " + "  ".join(f"{k} {v:.4f}" for k, v in r.items()))


if __name__ == "__main__":
    train()
