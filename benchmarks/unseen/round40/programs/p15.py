"""Anchor-based one-stage detector for small blobs on noisy micrographs."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

IMAGE = 32
STRIDE = 4
GRID = IMAGE // STRIDE
BATCH = 8
NEG_POS_RATIO = 3


def render(rng):
    """One image, its per-cell objectness and its per-cell box regression targets."""
    yy, xx = np.mgrid[0:IMAGE, 0:IMAGE]
    image = rng.normal(scale=0.15, size=(IMAGE, IMAGE))
    objectness = np.zeros((GRID, GRID), dtype=np.float32)
    offsets = np.zeros((3, GRID, GRID), dtype=np.float32)
    for _ in range(int(rng.integers(1, 5))):
        cx, cy = rng.uniform(3, IMAGE - 3, size=2)
        radius = rng.uniform(1.5, 4.0)
        image += np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / (2 * (radius / 2) ** 2))
        gx, gy = int(cx // STRIDE), int(cy // STRIDE)
        objectness[gy, gx] = 1.0
        offsets[:, gy, gx] = (cx / STRIDE - gx - 0.5, cy / STRIDE - gy - 0.5, np.log(radius))
    return image.astype(np.float32)[None], objectness, offsets


class Blobs(torch.utils.data.Dataset):
    def __init__(self, size, seed):
        rng = np.random.default_rng(seed)
        self.items = [render(rng) for _ in range(size)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


class PhotometricJitter:
    """Intensity changes that leave the boxes where they are."""

    def __init__(self, rng):
        self.rng = rng
        kernel = torch.tensor([1.0, 2.0, 1.0])
        self.kernel = (kernel[:, None] * kernel[None] / 16.0)[None, None]

    def to(self, device):
        self.kernel = self.kernel.to(device)
        return self

    def __call__(self, images):
        if self.rng.random() < 0.5:
            images = 1.0 - images
        if self.rng.random() < 0.3:
            images = F.conv2d(images, self.kernel, padding=1)
        if self.rng.random() < 0.5:
            images = images + 0.05 * torch.randn_like(images)
        if self.rng.random() < 0.3:
            images = images - images.mean(dim=(2, 3), keepdim=True)
        return images


class Detector(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, width, 3, stride=2, padding=1),
            nn.GroupNorm(3, width),
            nn.SiLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.GroupNorm(3, 2 * width),
            nn.SiLU(),
        )
        self.score = nn.Conv2d(2 * width, 1, 1)
        self.box = nn.Conv2d(2 * width, 3, 1)
        nn.init.constant_(self.score.bias, -2.0)

    def forward(self, images):
        features = self.body(images)
        return self.score(features).squeeze(1), self.box(features)


class DetectionLoss(nn.Module):
    def forward(self, scores, boxes, objectness, offsets):
        positive = objectness > 0.5
        num_pos = int(positive.sum().item())
        cls = F.binary_cross_entropy_with_logits(scores, objectness, reduction="none")
        pos_loss = (cls * positive).sum()
        neg_loss = cls.masked_fill(positive, 0.0).flatten()
        hardest = neg_loss.topk(NEG_POS_RATIO * num_pos).values.sum()
        l1 = F.smooth_l1_loss(boxes, offsets, reduction="none").sum(dim=1)
        box_loss = (l1 * positive).sum()
        return (pos_loss + hardest + 2.0 * box_loss) / positive.sum().clamp(min=1)


def main():
    torch.manual_seed(21)
    device = torch_xla.device()
    loader = torch.utils.data.DataLoader(
        Blobs(80, seed=21), batch_size=BATCH, shuffle=True, drop_last=True
    )
    jitter = PhotometricJitter(random.Random(21)).to(device)
    model = Detector().to(device)
    criterion = DetectionLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    average = torch.zeros((), device=device)

    step = 0
    for epoch in range(2):
        for images, objectness, offsets in loader:
            images = jitter(images.to(device))
            objectness, offsets = objectness.to(device), offsets.to(device)
            optimizer.zero_grad()
            scores, boxes = model(images)
            loss = criterion(scores, boxes, objectness, offsets)
            loss.backward()
            xm.optimizer_step(optimizer)
            average = 0.95 * average + 0.05 * loss.detach()
            torch_xla.sync()
            step += 1
        print(f"epoch {epoch} step {step} loss {average.item():.4f}")


if __name__ == "__main__":
    main()
