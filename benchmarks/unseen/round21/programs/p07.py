"""Field-boundary segmentation on synthetic aerial tiles with hard-pixel mining."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

TILE = 20
BATCH = 4
STEPS = 32


class AerialTiles(Dataset):
    """Tiles with a bright rectangular field; the target is its pixel mask."""

    def __init__(self, n, seed):
        gen = torch.Generator().manual_seed(seed)
        self.images = 0.5 * torch.randn(n, 2, TILE, TILE, generator=gen)
        self.masks = torch.zeros(n, TILE, TILE)
        corners = torch.randint(1, TILE // 2, (n, 2), generator=gen)
        sizes = torch.randint(6, TILE // 2, (n, 2), generator=gen)
        for i in range(n):
            (r, c), (h, w) = corners[i].tolist(), sizes[i].tolist()
            self.masks[i, r:r + h, c:c + w] = 1.0
            self.images[i, :, r:r + h, c:c + w] += 1.0

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.masks[i]


class CropCollate:
    """Stacks tiles and takes one random square crop for the whole batch."""

    def __init__(self, smallest, largest, seed):
        self.smallest, self.largest = smallest, largest
        self.rng = random.Random(seed)

    def __call__(self, samples):
        images, masks = (torch.stack(part) for part in zip(*samples))
        side = self.rng.randint(self.smallest, self.largest)
        top, left = self.rng.randint(0, TILE - side), self.rng.randint(0, TILE - side)
        rows, cols = slice(top, top + side), slice(left, left + side)
        return images[:, :, rows, cols].contiguous(), masks[:, rows, cols].contiguous()


class PixelNet(nn.Module):
    """Classifies every pixel from its spectral bands alone."""

    def __init__(self, bands=2, width=8):
        super().__init__()
        self.enter = nn.Linear(bands, width)
        self.exit = nn.Linear(width, 1)

    def forward(self, x):
        bands_last = x.permute(0, 2, 3, 1)
        return self.exit(torch.relu(self.enter(bands_last))).squeeze(-1)


class HardPixelLoss(nn.Module):
    """Mean of the largest pixel losses; the kept share shrinks over training."""

    def __init__(self, final_share, total_steps):
        super().__init__()
        self.final_share = final_share
        self.total_steps = total_steps

    def kept_share(self, step):
        return 1.0 - (1.0 - self.final_share) * step / self.total_steps

    def forward(self, logits, masks, step):
        pixel = F.binary_cross_entropy_with_logits(logits, masks, reduction="none").flatten()
        keep = max(1, int(self.kept_share(step) * pixel.numel()))
        hardest, _ = torch.topk(pixel, keep)
        return hardest.mean()


def endless(loader):
    while True:
        yield from loader


def main():
    torch.manual_seed(5)
    device = torch_xla.device()
    loader = DataLoader(AerialTiles(32, seed=3), batch_size=BATCH, shuffle=True, drop_last=True,
                        generator=torch.Generator().manual_seed(6),
                        collate_fn=CropCollate(12, 18, seed=21))
    model = PixelNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.8)
    criterion = HardPixelLoss(final_share=0.25, total_steps=STEPS)
    stream = endless(loader)
    for step in range(STEPS):
        images, masks = next(stream)
        images, masks = images.to(device), masks.to(device)
        optimizer.zero_grad()
        loss = criterion(model(images), masks, step)
        loss.backward()
        optimizer.step()
        xm.mark_step()
        if (step + 1) % 8 == 0:
            print(f"step {step + 1}: hard-pixel loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
