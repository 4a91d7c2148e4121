"""Leaf-disease patch classifier, timm recipe ported to XLA (small ViT, mixup/cutmix, cosine)."""
import argparse
import math
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
import torch_xla
from timm.data.mixup import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import param_groups_weight_decay
from timm.scheduler import CosineLRScheduler


class LeafPatches(Dataset):
    """Procedural stand-in for the patch archive: lesions of class-specific radius and colour."""

    def __init__(self, n, size, num_classes, seed):
        rng = np.random.RandomState(seed)
        self.labels = rng.randint(0, num_classes, size=n)
        self.seeds = rng.randint(0, 2**31 - 1, size=n)
        self.size = size
        self.num_classes = num_classes

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        rng = np.random.RandomState(self.seeds[i])
        y = int(self.labels[i])
        yy, xx = np.mgrid[0:self.size, 0:self.size]
        img = rng.normal(0.4, 0.08, size=(3, self.size, self.size)).astype(np.float32)
        for _ in range(1 + y % 3):
            cy, cx = rng.randint(4, self.size - 4, size=2)
            blob = ((yy - cy) ** 2 + (xx - cx) ** 2) < (2 + y) ** 2
            img[y % 3][blob] += 0.5
        if rng.rand() < 0.5:
            img = img[:, :, ::-1].copy()
        return torch.from_numpy((img - 0.45) / 0.25), y


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=12)
    p.add_argument("--img-size", type=int, default=32)
    p.add_argument("--num-classes", type=int, default=5)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--weight-decay", type=float, default=0.05)
    p.add_argument("--mixup", type=float, default=0.2)
    p.add_argument("--cutmix", type=float, default=1.0)
    p.add_argument("--smoothing", type=float, default=0.1)
    p.add_argument("--clip-grad", type=float, default=1.0)
    p.add_argument("--log-interval", type=int, default=8)
    p.add_argument("--seed", type=int, default=17)
    return p.parse_args()


def validate(model, loader, device):
    model.eval()
    hits, seen = torch.zeros((), device=device), 0
    with torch.no_grad():
        for images, target in loader:
            logits = model(images.to(device))
            hits += (logits.argmax(-1) == target.to(device)).sum()
            seen += images.size(0)
            torch_xla.sync()
    model.train()
    return hits.item() / seen


def main():
    args = parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch_xla.device()

    train_set = LeafPatches(144, args.img_size, args.num_classes, seed=1)
    val_set = LeafPatches(36, args.img_size, args.num_classes, seed=2)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, args.batch_size)

    model = VisionTransformer(
        img_size=args.img_size, patch_size=8, embed_dim=24, depth=1, num_heads=2,
        mlp_ratio=2.0, num_classes=args.num_classes, drop_path_rate=0.1,
    ).to(device)
    optimizer = torch.optim.AdamW(
        param_groups_weight_decay(model, args.weight_decay), lr=args.lr, betas=(0.9, 0.98))
    steps_per_epoch = len(train_loader)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=args.epochs * steps_per_epoch, lr_min=1e-5,
        warmup_t=steps_per_epoch // 2, warmup_lr_init=1e-5, t_in_epochs=False)

    mixup_fn = None
    if args.mixup > 0 or args.cutmix > 0:
        mixup_fn = Mixup(
            mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, switch_prob=0.5, mode="batch",
            label_smoothing=args.smoothing, num_classes=args.num_classes)
        criterion = SoftTargetCrossEntropy()
    else:
        criterion = nn.CrossEntropyLoss(label_smoothing=args.smoothing)

    step = 0
    for epoch in range(args.epochs):
        running = torch.zeros((), device=device)
        for images, target in train_loader:
            images, target = images.to(device), target.to(device)
            if mixup_fn is not None:
                images, target = mixup_fn(images, target)
            loss = criterion(model(images), target)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), args.clip_grad)
            optimizer.step()
            running += loss.detach()
            step += 1
            scheduler.step_update(step)
            torch_xla.sync()
            if step % args.log_interval == 0:
                lr = optimizer.param_groups[0]["lr"]
                print(f"step {step:3d}  loss {loss.item():.4f}  lr {lr:.2e}")
        acc = validate(model, val_loader, device)
        mean = running.item() / steps_per_epoch
        if not math.isfinite(mean):
            raise RuntimeError("training diverged")
        print(f"epoch {epoch}  train {mean:.4f}  val acc {acc:.3f}")


if __name__ == "__main__":
    main()
