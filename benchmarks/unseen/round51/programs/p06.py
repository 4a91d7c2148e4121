"""Land-cover segmentation of multispectral tiles: small dilated net, OHEM cross entropy."""
import argparse
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

N_BANDS = 5
N_CLASSES = 4
TILE = 32
IGNORE = 255


class Tiles(torch.utils.data.Dataset):
    """Voronoi-like fields with a spectral signature per class and cloud gaps."""

    def __init__(self, n=64, seed=0):
        rng = np.random.default_rng(seed)
        sig = np.random.default_rng(42).normal(0, 1, (N_CLASSES, N_BANDS))
        yy, xx = np.mgrid[:TILE, :TILE]
        images, masks = [], []
        for _ in range(n):
            sites = rng.uniform(0, TILE, (9, 2))
            owner = np.argmin([(yy - a) ** 2 + (xx - b) ** 2 for a, b in sites], 0)
            mask = rng.integers(0, N_CLASSES, 9)[owner]
            img = sig[mask] + rng.normal(0, 0.7, (TILE, TILE, N_BANDS))
            cy, cx = rng.integers(0, TILE - 8, 2)
            mask = mask.copy()
            mask[cy:cy + 8, cx:cx + 8] = IGNORE
            images.append(img.transpose(2, 0, 1))
            masks.append(mask)
        self.images = torch.tensor(np.stack(images), dtype=torch.float32)
        self.masks = torch.tensor(np.stack(masks), dtype=torch.long)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], self.masks[i]


class MultiScale:
    """Rescale the batch to a size between lo and hi (multiple of stride)."""

    def __init__(self, lo, hi, stride):
        self.sizes = list(range(lo, hi + 1, stride))

    def __call__(self, image, mask):
        size = random.choice(self.sizes)
        image = F.interpolate(image, size=(size, size), mode="bilinear", align_corners=False)
        mask = F.interpolate(mask.unsqueeze(1).float(), size=(size, size), mode="nearest")
        return image, mask.squeeze(1).long()


class SegNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem = nn.Conv2d(N_BANDS, width, 3, stride=2, padding=1)
        self.context = nn.Conv2d(width, width, 3, padding=2, dilation=2)
        self.skip = nn.Conv2d(N_BANDS, N_CLASSES, 1)
        self.head = nn.ConvTranspose2d(width, N_CLASSES, 2, stride=2)

    def forward(self, x):
        h = F.relu(self.stem(x))
        h = h + F.relu(self.context(h))
        return self.head(h) + self.skip(x)


class OhemCrossEntropy(nn.Module):
    def __init__(self, thresh=0.7, ignore_index=IGNORE):
        super().__init__()
        self.loss_thresh = -float(np.log(thresh))
        self.ignore_index = ignore_index

    def forward(self, logits, target):
        pixel = F.cross_entropy(logits, target, ignore_index=self.ignore_index,
                                reduction="none").flatten()
        hard = pixel[pixel > self.loss_thresh]
        return hard.mean()


def poly_lr(opt, base, step, total, power=0.9):
    for group in opt.param_groups:
        group["lr"] = base * (1 - step / total) ** power


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=16)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--batch", type=int, default=4)
    return p.parse_args()


def main():
    args = parse()
    random.seed(0)
    torch.manual_seed(0)
    device = xm.xla_device()
    loader = torch.utils.data.DataLoader(Tiles(), args.batch, shuffle=True, drop_last=True)
    augment = MultiScale(20, 56, stride=4)
    model = SegNet().to(device).train()
    criterion = OhemCrossEntropy(thresh=0.7)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)

    step = 0
    while step < args.steps:
        for image, mask in loader:
            image, mask = augment(image, mask)
            image, mask = image.to(device), mask.to(device)
            poly_lr(opt, args.lr, step, args.steps)
            opt.zero_grad(set_to_none=True)
            loss = criterion(model(image), mask)
            loss.backward()
            opt.step()
            torch_xla.sync()
            step += 1
            if step % 8 == 0:
                print(f"[{step}/{args.steps}] loss {loss.item():.4f} lr {opt.param_groups[0]['lr']:.4f}")
            if step >= args.steps:
                break


if __name__ == "__main__":
    main()
