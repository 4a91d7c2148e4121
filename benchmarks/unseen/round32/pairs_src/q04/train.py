"""Galaxy morphology classifier: small ResNet from timm, CutMix/Mixup, soft targets."""
import argparse

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.resnet import BasicBlock, ResNet

CLASSES = ["smooth", "disk", "edge-on", "merger", "artifact", "irregular"]


def make_cutouts(n, batch, size, seed):
    """Synthetic postage stamps: an elliptical blob, its axis ratio depends on the class."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[-1:1:size * 1j, -1:1:size * 1j]
    for _ in range(n):
        y = rng.integers(0, len(CLASSES), batch)
        q = 1.0 - 0.14 * y
        r2 = xx[None] ** 2 + (yy[None] / q[:, None, None]) ** 2
        img = np.exp(-r2 / 0.18)[:, None] * rng.uniform(0.6, 1.4, (batch, 3, 1, 1))
        img += 0.05 * rng.standard_normal((batch, 3, size, size))
        yield torch.tensor(img, dtype=torch.float32), torch.tensor(y)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=6)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--mixup", type=float, default=0.2)
    ap.add_argument("--cutmix", type=float, default=1.0)
    ap.add_argument("--smoothing", type=float, default=0.1)
    args = ap.parse_args()

    torch.manual_seed(0)
    np.random.seed(2)
    device = torch_xla.device()
    model = ResNet(BasicBlock, layers=(1, 1, 1, 1), channels=(8, 12, 16, 24), num_classes=len(CLASSES)).to(device)
    mixup = Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, prob=0.9, switch_prob=0.7,
        label_smoothing=args.smoothing, num_classes=len(CLASSES),
    )
    criterion = SoftTargetCrossEntropy()
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    xm.mark_step()

    for step, (img, label) in enumerate(make_cutouts(args.steps, args.batch, args.size, seed=4)):
        img, label = img.to(device), label.to(device)
        img, target = mixup(img, label)
        loss = criterion(model(img), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        xm.mark_step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
