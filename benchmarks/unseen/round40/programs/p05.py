"""Change detection between two satellite tiles: siamese encoder, hard-pixel mining."""
import os
from collections import deque

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

SEED = 404
TILE, CHANNELS, BATCH, STEPS = 24, 4, 6, 18
KEEP_START, KEEP_END, KEEP_STEPS = 1.0, 0.25, 12
SPIKE = 3.0


class TilePairs(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        before = rng.normal(size=(n, CHANNELS, TILE, TILE)).astype(np.float32)
        after = before + 0.2 * rng.normal(size=before.shape).astype(np.float32)
        mask = np.zeros((n, TILE, TILE), dtype=np.float32)
        for i in range(n):
            h, w = rng.integers(4, 10, 2)
            y, x = rng.integers(0, TILE - h), rng.integers(0, TILE - w)
            after[i, :, y:y + h, x:x + w] += 1.5
            mask[i, y:y + h, x:x + w] = 1.0
        self.before, self.after, self.mask = map(torch.from_numpy, (before, after, mask))

    def __len__(self):
        return self.mask.size(0)

    def __getitem__(self, i):
        return self.before[i], self.after[i], self.mask[i]


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c1 = nn.Conv2d(CHANNELS, width, 3, padding=1)
        self.n1 = nn.GroupNorm(4, width)
        self.c2 = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return self.c2(F.relu(self.n1(self.c1(x))))


class ChangeNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.encoder = Encoder(width)
        self.head = nn.Sequential(nn.Conv2d(2 * width, width, 1), nn.ReLU(), nn.Conv2d(width, 1, 1))

    def forward(self, before, after):
        a, b = self.encoder(before), self.encoder(after)
        return self.head(torch.cat([(a - b).abs(), a * b], dim=1)).squeeze(1)


class HardPixelLoss(nn.Module):
    """BCE over the hardest pixels; the kept share goes down as the model gets better."""

    def __init__(self):
        super().__init__()
        self.keep = KEEP_START

    def set_progress(self, step):
        frac = min(step / KEEP_STEPS, 1.0)
        self.keep = KEEP_START + (KEEP_END - KEEP_START) * frac

    def forward(self, logits, mask):
        per_pixel = F.binary_cross_entropy_with_logits(logits, mask, reduction="none").flatten()
        k = max(1, int(self.keep * per_pixel.numel()))
        hardest, _ = torch.topk(per_pixel, k)
        return hardest.mean()


class LossWindow:
    """Recent losses, kept on the device so that nothing waits for a transfer."""

    def __init__(self, size=100):
        self.values = deque(maxlen=size)

    def push(self, loss):
        self.values.append(loss.detach())

    def mean(self):
        return torch.stack(tuple(self.values)).mean()


def iou(logits, mask):
    pred = logits > 0
    truth = mask > 0.5
    return (pred & truth).sum() / (pred | truth).sum().clamp(min=1)


def infinite(loader):
    while True:
        for batch in loader:
            yield batch


def main():
    torch.manual_seed(SEED)
    device = torch_xla.device()
    loader = DataLoader(TilePairs(90, SEED), batch_size=BATCH, shuffle=True, drop_last=True)
    model = ChangeNet().to(device)
    criterion = HardPixelLoss()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9)
    window = LossWindow()

    stream = infinite(loader)
    for step in range(STEPS):
        before, after, mask = (t.to(device) for t in next(stream))
        criterion.set_progress(step)
        optimizer.zero_grad()
        logits = model(before, after)
        loss = criterion(logits, mask)
        window.push(loss)
        # a corrupt tile must not wreck the weights: drop the update on a spike
        usable = (loss.detach() < SPIKE * window.mean()).to(loss.dtype)
        (loss * usable).backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        score = iou(logits.detach(), mask)
        torch_xla.sync()
        if step % 6 == 5:
            print(
                f"step {step + 1} loss {loss.item():.4f} keep {criterion.keep:.2f} "
                f"iou {score.item():.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
