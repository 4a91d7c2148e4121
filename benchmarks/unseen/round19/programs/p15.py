"""Nuclei segmentation; every update sees about the same number of nuclei."""
import argparse
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset


class Nuclei(Dataset):
    """Synthetic fluorescence tiles with elliptical nuclei."""

    def __init__(self, n, size=32, seed=0):
        self.size, self.n = size, n
        rng = np.random.default_rng(seed)
        self.density = np.clip(rng.lognormal(1.0, 0.9, n).astype(int), 1, 24)
        self.seeds = rng.integers(0, 2 ** 31, n)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seeds[i])
        yy, xx = np.mgrid[: self.size, : self.size]
        mask = np.zeros((self.size, self.size), bool)
        for _ in range(self.density[i]):
            cy, cx = rng.uniform(2, self.size - 2, 2)
            a, b = rng.uniform(1.5, 3.5, 2)
            phi = rng.uniform(0, math.pi)
            u = (xx - cx) * math.cos(phi) + (yy - cy) * math.sin(phi)
            v = (yy - cy) * math.cos(phi) - (xx - cx) * math.sin(phi)
            mask |= (u / a) ** 2 + (v / b) ** 2 < 1
        image = mask * rng.uniform(0.5, 1.0) + rng.normal(0, 0.15, mask.shape)
        return (image[None].astype(np.float32), mask[None].astype(np.float32),
                int(self.density[i]))


class SmallUNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.inc = nn.Conv2d(1, c, 3, padding=1)
        self.down = nn.Conv2d(c, 2 * c, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.out = nn.Conv2d(2 * c, 1, 3, padding=1)

    def forward(self, x):
        a = F.relu(self.inc(x))
        b = F.relu(self.down(a))
        return self.out(torch.cat([a, F.relu(self.up(b))], 1))


def seg_loss(logits, target):
    bce = F.binary_cross_entropy_with_logits(logits, target)
    p = torch.sigmoid(logits)
    inter = (p * target).sum((1, 2, 3))
    dice = 1 - (2 * inter + 1) / (p.sum((1, 2, 3)) + target.sum((1, 2, 3)) + 1)
    return bce + dice.mean()


class Trainer:
    def __init__(self, args, device):
        self.args = args
        self.device = device
        self.model = SmallUNet().to(device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9)
        self.nuclei = 0
        self.updates = 0

    def update(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.opt.zero_grad(set_to_none=False)
        self.nuclei = 0
        self.updates += 1
        torch_xla.sync()

    def fit(self, loader):
        for image, mask, count in loader:
            image, mask = image.to(self.device), mask.to(self.device)
            in_batch = int(count.sum())
            loss = seg_loss(self.model(image), mask)
            (loss * (in_batch / self.args.nuclei_per_update)).backward()
            self.nuclei += in_batch
            if self.nuclei >= self.args.nuclei_per_update:
                self.update()
                if self.updates % 10 == 0:
                    print(f"update {self.updates}: loss {loss.item():.4f}")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--lr", type=float, default=0.1)
    ap.add_argument("--nuclei-per-update", type=int, default=40)
    ap.add_argument("--tiles-per-batch", type=int, default=2)
    args = ap.parse_args()
    torch.manual_seed(7)
    device = torch_xla.device()
    loader = DataLoader(Nuclei(560), batch_size=args.tiles_per_batch, shuffle=True,
                        generator=torch.Generator().manual_seed(7))
    Trainer(args, device).fit(loader)


if __name__ == "__main__":
    main()
