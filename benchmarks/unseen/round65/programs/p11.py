"""Train a small timm classifier on leaf-disease tiles."""
import argparse
import math
import random

import numpy as np
import timm
import torch
import torch_xla
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from torch.utils.data import DataLoader, Dataset


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--model", default="vit_tiny_patch16_224")
    p.add_argument("--num-classes", type=int, default=6)
    p.add_argument("--img-size", type=int, default=32)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--warmup-steps", type=int, default=4)
    p.add_argument("--mixup", type=float, default=0.2)
    p.add_argument("--cutmix", type=float, default=1.0)
    p.add_argument("--smoothing", type=float, default=0.1)
    p.add_argument("--seed", type=int, default=7)
    return p.parse_args()


class LeafTiles(Dataset):
    """Synthetic tiles: the class sets the hue and the lesion frequency."""

    def __init__(self, n, size, classes, seed):
        g = torch.Generator().manual_seed(seed)
        self.targets = torch.randint(0, classes, (n,), generator=g)
        yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        waves = []
        for t in self.targets.tolist():
            f = 0.15 + 0.1 * t
            base = torch.sin(f * xx) * torch.cos(f * yy)
            img = torch.stack([base, base.roll(t, 0), base.roll(t, 1)])
            waves.append(img + 0.3 * torch.randn(3, size, size, generator=g))
        self.images = torch.stack(waves)

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        return self.images[i], self.targets[i]


def build_model(args):
    return timm.create_model(
        args.model, num_classes=args.num_classes, img_size=args.img_size,
        patch_size=8, embed_dim=16, depth=1, num_heads=2,
    )


def lr_at(step, total, args):
    if step < args.warmup_steps:
        return args.lr * (step + 1) / args.warmup_steps
    t = (step - args.warmup_steps) / max(1, total - args.warmup_steps)
    return 0.5 * args.lr * (1 + math.cos(math.pi * t))


def main():
    args = parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)

    device = torch_xla.device()
    train = LeafTiles(64, args.img_size, args.num_classes, args.seed)
    loader = DataLoader(train, batch_size=args.batch_size, shuffle=True, drop_last=True)

    model = build_model(args).to(device)
    optimizer = create_optimizer_v2(model, opt="sgd", lr=args.lr, momentum=0.9, weight_decay=1e-4)
    mixup_fn = Mixup(
        mixup_alpha=args.mixup,
        cutmix_alpha=args.cutmix,
        prob=1.0,
        switch_prob=0.6,
        mode="batch",
        label_smoothing=args.smoothing,
        num_classes=args.num_classes,
    )
    criterion = SoftTargetCrossEntropy().to(device)

    total = args.epochs * len(loader)
    step = 0
    model.train()
    for epoch in range(args.epochs):
        running = torch.zeros((), device=device)
        for images, targets in loader:
            for group in optimizer.param_groups:
                group["lr"] = lr_at(step, total, args)
            images = images.to(device)
            targets = targets.to(device)
            images, targets = mixup_fn(images, targets)

            logits = model(images)
            loss = criterion(logits, targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.detach()
            torch_xla.sync()
            step += 1
        print(f"epoch {epoch} loss {running.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
