"""x2 super-resolution of satellite tiles, with a bank of difficult patches."""
import random
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

BANDS = 4
LR_SIZE = 16
BATCH = 8
REPLAY = 4


def make_tiles(n, generator):
    """Fields, roads and water: smooth textures plus sharp edges, in 4 bands."""
    size = LR_SIZE * 2
    coarse = torch.rand(n, BANDS, 5, 5, generator=generator)
    tiles = F.interpolate(coarse, size=(size, size), mode="bicubic", align_corners=False)
    for i in range(n):
        for _ in range(int(torch.randint(0, 4, (1,), generator=generator))):
            r = int(torch.randint(0, size - 2, (1,), generator=generator))
            if torch.rand(1, generator=generator) < 0.5:
                tiles[i, :, r : r + 2, :] = 0.9
            else:
                tiles[i, :, :, r : r + 2] = 0.1
    return tiles.clamp(0, 1)


def degrade(hr):
    return F.avg_pool2d(hr, 2)


class SRNet(nn.Module):
    def __init__(self, width=16, depth=3):
        super().__init__()
        self.head = nn.Conv2d(BANDS, width, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(depth))
        self.tail = nn.Conv2d(width, BANDS * 4, 3, padding=1)

    def forward(self, x):
        y = self.head(x)
        for conv in self.body:
            y = y + F.gelu(conv(y))
        up = F.interpolate(x, scale_factor=2, mode="nearest")
        return up + F.pixel_shuffle(self.tail(y), 2)


class PatchBank:
    def __init__(self, capacity):
        self.items = deque(maxlen=capacity)

    def offer(self, tiles, errors, threshold):
        for i, err in enumerate(errors.tolist()):
            if err > threshold:
                self.items.append(tiles[i].clone())

    def draw(self, k):
        if len(self.items) < k:
            return None
        return torch.stack(random.sample(list(self.items), k))


class Trainer:
    def __init__(self, device):
        self.device = device
        self.net = SRNet().to(device)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=2e-3)
        self.bank = PatchBank(capacity=64)
        self.level = None

    def step(self, hr):
        replay = self.bank.draw(REPLAY)
        if replay is None:
            replay = hr[:REPLAY]
        batch = torch.cat([hr, replay])
        self.opt.zero_grad()
        per_tile = (self.net(degrade(batch)) - batch).abs().mean((1, 2, 3))
        per_tile.mean().backward()
        self.opt.step()
        torch_xla.sync()

        errors = per_tile.detach()[:BATCH].cpu()
        mean = errors.mean().item()
        self.level = mean if self.level is None else 0.9 * self.level + 0.1 * mean
        self.bank.offer(hr, errors, 1.1 * self.level)
        return mean


def main():
    random.seed(8)
    torch.manual_seed(8)
    generator = torch.Generator().manual_seed(99)
    trainer = Trainer(xm.xla_device())
    for step in range(45):
        hr = make_tiles(BATCH, generator).to(trainer.device)
        err = trainer.step(hr)
        if step % 9 == 0:
            print(f"step {step:3d}  L1 {err:.4f}  bank {len(trainer.bank.items)}")


if __name__ == "__main__":
    main()
