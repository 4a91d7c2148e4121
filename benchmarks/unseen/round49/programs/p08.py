"""Arrhythmia detection on single-lead ECG strips.

Few strips are abnormal: focal loss, whose focusing starts soft and gets
sharper over the epochs.
"""
import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

FS = 64
STRIP = 256
SHORTEST = 160
EPOCHS = 5
BATCH = 12


def synth_strip(rng, abnormal):
    t = np.arange(STRIP) / FS
    x = 0.1 * np.sin(2 * np.pi * 0.3 * t + rng.uniform(0, 6)) + 0.05 * rng.normal(size=STRIP)
    beat, rate = rng.uniform(0, 0.5), rng.uniform(0.7, 1.0)
    while beat < t[-1]:
        early = abnormal and rng.uniform() < 0.4
        width = 0.06 if early else 0.02
        x += (1.6 if early else 1.0) * np.exp(-((t - beat) ** 2) / (2 * width**2))
        beat += rate * (0.6 if early else rng.normal(1.0, 0.03))
    return x.astype(np.float32)


class Strips(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.y = (rng.uniform(size=n) < 0.2).astype(np.float32)
        self.x = np.stack([synth_strip(rng, bool(v)) for v in self.y])

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class CropAndScale:
    """Collate function: cut the strips, jitter gain and baseline."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def __call__(self, samples):
        n = self.rng.randint(SHORTEST, STRIP)
        xs, ys = [], []
        for x, y in samples:
            start = self.rng.randint(0, STRIP - n)
            gain = self.rng.uniform(0.8, 1.2)
            xs.append(torch.from_numpy(x[start:start + n]) * gain + self.rng.gauss(0, 0.05))
            ys.append(float(y))
        return torch.stack(xs).unsqueeze(1), torch.tensor(ys)


class SEBlock(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv = nn.Conv1d(c_in, c_out, 7, stride=stride, padding=3)
        self.norm = nn.GroupNorm(2, c_out)
        self.down, self.up = nn.Linear(c_out, c_out // 4), nn.Linear(c_out // 4, c_out)

    def forward(self, x):
        x = F.silu(self.norm(self.conv(x)))
        gate = torch.sigmoid(self.up(F.relu(self.down(x.mean(-1)))))
        return x * gate.unsqueeze(-1)


class ECGNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(SEBlock(1, 8, 2), SEBlock(8, 16, 2))
        self.score = nn.Linear(16, 1)
        self.label = nn.Linear(16, 1)

    def forward(self, x):
        h = self.blocks(x).transpose(1, 2)
        att = self.score(h).softmax(dim=1)
        return self.label((att * h).sum(1)).squeeze(-1)


class FocalLoss(nn.Module):
    def __init__(self, alpha=0.7):
        super().__init__()
        self.alpha = alpha
        self.gamma = 0.5

    def forward(self, logits, target):
        ce = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
        p = torch.sigmoid(logits)
        p_t = p * target + (1 - p) * (1 - target)
        weight = self.alpha * target + (1 - self.alpha) * (1 - target)
        return (weight * (1 - p_t) ** self.gamma * ce).mean()


def main():
    torch.manual_seed(17)
    device = torch_xla.device()
    loader = torch.utils.data.DataLoader(
        Strips(48, seed=17), batch_size=BATCH, shuffle=True, drop_last=True, collate_fn=CropAndScale(17)
    )
    model = ECGNet().to(device)
    criterion = FocalLoss()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.02)
    total = EPOCHS * len(loader)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: 0.5 * (1 + math.cos(math.pi * s / total)))

    for epoch in range(EPOCHS):
        criterion.gamma = 0.5 + 2.0 * epoch / EPOCHS
        total_loss = torch.zeros((), device=device)
        caught = torch.zeros((), device=device)
        positives = 0.0
        for x, y in loader:
            positives += float(y.sum())
            x, y = x.to(device), y.to(device)
            logits = model(x)
            loss = criterion(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            total_loss += loss.detach()
            caught += ((logits > 0).float() * y).sum()
            torch_xla.sync()
        recall = caught.item() / max(positives, 1.0)
        print(f"epoch {epoch}  focal {total_loss.item() / len(loader):.4f}  recall {recall:.2f}")


if __name__ == "__main__":
    main()
