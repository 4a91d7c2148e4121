"""Binary segmentation of synthetic blobs with a small U-Net."""
import itertools
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

SEED = 11
IMAGE = 24
EPOCHS = 4


class BlobDataset(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[0:IMAGE, 0:IMAGE]
        images, masks = [], []
        for _ in range(n):
            cy, cx = rng.integers(6, IMAGE - 6, size=2)
            r = rng.integers(3, 7)
            mask = ((yy - cy) ** 2 + (xx - cx) ** 2 < r ** 2).astype(np.float32)
            image = np.stack([mask * c for c in rng.uniform(0.4, 1.0, 3)])
            image += rng.normal(0, 0.15, image.shape)
            images.append(image.astype(np.float32))
            masks.append(mask[None])
        self.images = torch.from_numpy(np.stack(images))
        self.masks = torch.from_numpy(np.stack(masks))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.masks[i]


def brightness(img, mask):
    return img + 0.2 * torch.rand(img.size(0), 1, 1, 1, device=img.device), mask


def contrast(img, mask):
    mean = img.mean(dim=(2, 3), keepdim=True)
    return (img - mean) * 1.3 + mean, mask


def hflip(img, mask):
    return img.flip(-1), mask.flip(-1)


def gaussian_noise(img, mask):
    return img + 0.05 * torch.randn_like(img), mask


class Compose:
    """Applies `n` of the transforms to a batch, in the manner of RandAugment."""

    def __init__(self, transforms, n):
        self.transforms = transforms
        self.n = n

    def __call__(self, img, mask):
        for t in random.sample(self.transforms, self.n):
            img, mask = t(img, mask)
        return img.clamp(-1, 2), mask


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.GroupNorm(2, cout), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.down1 = block(3, width)
        self.down2 = block(width, 2 * width)
        self.mid = block(2 * width, 2 * width)
        self.up1 = block(3 * width, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.mid(self.down2(F.max_pool2d(a, 2)))
        b = F.interpolate(b, scale_factor=2, mode='nearest')
        return self.out(self.up1(torch.cat([a, b], dim=1)))


def dice_loss(logits, target):
    p = torch.sigmoid(logits)
    inter = (p * target).sum(dim=(1, 2, 3))
    total = p.sum(dim=(1, 2, 3)) + target.sum(dim=(1, 2, 3))
    return (1 - (2 * inter + 1) / (total + 1)).mean()


class Segmenter:
    def __init__(self, device):
        self.device = device
        self.model = UNet().to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.augment = Compose([brightness, contrast, hflip, gaussian_noise], n=2)

    def load(self, batch):
        img, mask = batch
        img, mask = img.to(self.device), mask.to(self.device)
        return self.augment(img, mask)

    def step(self, batch):
        img, mask = self.load(batch)
        self.optimizer.zero_grad()
        logits = self.model(img)
        loss = F.binary_cross_entropy_with_logits(logits, mask) + dice_loss(logits, mask)
        loss.backward()
        self.optimizer.step()
        xm.mark_step()
        return loss.detach()


def main():
    random.seed(SEED)
    torch.manual_seed(SEED)
    device = torch_xla.device()
    loader = DataLoader(BlobDataset(64, SEED), batch_size=8, shuffle=True, drop_last=True)
    trainer = Segmenter(device)
    step = itertools.count(1)
    for epoch in range(EPOCHS):
        for batch in loader:
            loss = trainer.step(batch)
            n = next(step)
            if n % 8 == 0:
                print(f'epoch {epoch} step {n} loss {loss.item():.4f}')


if __name__ == '__main__':
    main()
