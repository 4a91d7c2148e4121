"""Lesion segmentation on greyscale slices: small U-Net, Dice + BCE.

Photometric augmentation happens on the accelerator, once per batch.
"""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


def conv_block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1), nn.InstanceNorm2d(cout, affine=True), nn.LeakyReLU(0.1),
        nn.Conv2d(cout, cout, 3, padding=1), nn.InstanceNorm2d(cout, affine=True), nn.LeakyReLU(0.1))


class UNet(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.d1 = conv_block(1, width)
        self.d2 = conv_block(width, 2 * width)
        self.mid = conv_block(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.u2 = conv_block(4 * width, 2 * width)
        self.up1 = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.u1 = conv_block(2 * width, width)
        self.out = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([self.up2(c), b], dim=1))
        a = self.u1(torch.cat([self.up1(b), a], dim=1))
        return self.out(a)


class Photometric:
    """Brightness, contrast and gamma, as in the usual nnU-Net recipe."""

    def __init__(self, brightness=0.1, contrast=(0.75, 1.25), gamma=(0.7, 1.5), noise=0.03, seed=0):
        self.brightness, self.contrast = brightness, contrast
        self.gamma, self.noise = gamma, noise
        self.rng = np.random.default_rng(seed)

    def __call__(self, image):
        offset = self.rng.uniform(-self.brightness, self.brightness)
        factor = self.rng.uniform(*self.contrast)
        gamma = self.rng.uniform(*self.gamma)

        mean = image.mean(dim=(1, 2, 3), keepdim=True)
        image = (image - mean) * factor + mean + offset
        low = image.amin(dim=(1, 2, 3), keepdim=True)
        span = image.amax(dim=(1, 2, 3), keepdim=True) - low + 1e-6
        image = ((image - low) / span).pow(gamma) * span + low
        return image + self.noise * torch.randn_like(image)


def soft_dice(logits, target, smooth=1.0):
    prob = torch.sigmoid(logits)
    inter = (prob * target).sum(dim=(1, 2, 3))
    total = prob.sum(dim=(1, 2, 3)) + target.sum(dim=(1, 2, 3))
    return 1 - ((2 * inter + smooth) / (total + smooth)).mean()


class Slices(torch.utils.data.Dataset):
    def __init__(self, count, size, seed):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[:size, :size]
        self.items = []
        for _ in range(count):
            body = ((yy - size / 2) ** 2 + (xx - size / 2) ** 2) < (0.45 * size) ** 2
            cy, cx = rng.uniform(0.3 * size, 0.7 * size, 2)
            ry, rx = rng.uniform(2, 6, 2)
            lesion = ((yy - cy) / ry) ** 2 + ((xx - cx) / rx) ** 2 < 1
            image = 0.3 * body + 0.35 * lesion + 0.08 * rng.standard_normal((size, size))
            self.items.append((torch.from_numpy(image[None].astype(np.float32)),
                               torch.from_numpy(lesion[None].astype(np.float32))))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    dice = []
    for image, mask in loader:
        image, mask = image.to(device), mask.to(device)
        pred = (model(image) > 0).float()
        hit = (pred * mask).sum()
        dice.append(2 * hit / (pred.sum() + mask.sum()).clamp(min=1))
        torch_xla.sync()
    model.train()
    return sum(d.item() for d in dice) / len(dice)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=1e-2)
    ap.add_argument("--seed", type=int, default=13)
    args = ap.parse_args()

    torch.manual_seed(args.seed)
    device = torch_xla.device()
    train = torch.utils.data.DataLoader(Slices(64, args.size, args.seed), batch_size=8,
                                        shuffle=True, drop_last=True)
    val = torch.utils.data.DataLoader(Slices(16, args.size, args.seed + 1), batch_size=8)
    augment = Photometric(seed=args.seed)
    model = UNet().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.95, nesterov=True)
    total = args.epochs * len(train)
    sched = torch.optim.lr_scheduler.PolynomialLR(opt, total_iters=total, power=0.9)
    torch_xla.sync()

    for epoch in range(args.epochs):
        for image, mask in train:
            image, mask = augment(image.to(device)), mask.to(device)
            torch_xla.sync()
            logits = model(image)
            loss = soft_dice(logits, mask) + F.binary_cross_entropy_with_logits(logits, mask)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            torch_xla.sync()
        print(f"epoch {epoch}  loss {loss.item():.4f}  dice {validate(model, val, device):.3f}")


if __name__ == "__main__":
    main()
