"""ViT from scratch on procedural textures, DeiT style recipe built from timm parts."""
import argparse
import math
import random

import numpy as np
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, accuracy
from torch.utils.data import DataLoader, Dataset

import torch_xla
import torch_xla.core.xla_model as xm


class Textures(Dataset):
    def __init__(self, n, size, classes, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, classes, n)
        yy, xx = np.mgrid[:size, :size] / size
        theta = math.pi * self.labels / classes
        phase = rng.uniform(0, 2 * math.pi, n)
        wave = np.cos(theta)[:, None, None] * xx + np.sin(theta)[:, None, None] * yy
        img = np.sin(2 * math.pi * 3 * wave + phase[:, None, None])
        self.images = (img[:, None] + 0.3 * rng.normal(size=(n, 3, size, size))).astype(np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i]), int(self.labels[i])


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--img-size", type=int, default=16)
    p.add_argument("--num-classes", type=int, default=4)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--mixup", type=float, default=0.8)
    p.add_argument("--cutmix", type=float, default=1.0)
    p.add_argument("--smoothing", type=float, default=0.1)
    p.add_argument("--seed", type=int, default=42)
    return p.parse_args([])


def build_model(args):
    return VisionTransformer(
        img_size=args.img_size, patch_size=4, embed_dim=24, depth=1, num_heads=2,
        num_classes=args.num_classes, drop_path_rate=0.05,
    )


def train_one_epoch(epoch, model, loader, optimizer, criterion, mixup_fn, device):
    model.train()
    total = torch.zeros(1).to(device)
    for images, targets in loader:
        images = images.to(device)
        targets = targets.to(device)
        if mixup_fn is not None:
            images, targets = mixup_fn(images, targets)
        loss = criterion(model(images), targets)
        optimizer.zero_grad()
        loss.backward()
        total += loss.detach()
        xm.optimizer_step(optimizer, barrier=True)
    return total.item() / len(loader)


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    top1 = AverageMeter()
    for images, targets in loader:
        logits = model(images.to(device)).cpu()
        top1.update(accuracy(logits, targets)[0].item(), targets.size(0))
    return top1.avg


def main():
    args = parse()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch_xla.device()

    train_set = Textures(160, args.img_size, args.num_classes, seed=0)
    val_set = Textures(64, args.img_size, args.num_classes, seed=1)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, args.batch_size)

    model = build_model(args).to(device)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=args.lr, weight_decay=0.05)
    scheduler = CosineLRScheduler(optimizer, t_initial=args.epochs, warmup_t=1, warmup_lr_init=1e-4)
    criterion = SoftTargetCrossEntropy()
    mixup_fn = Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, prob=1.0, switch_prob=0.5,
        mode="batch", label_smoothing=args.smoothing, num_classes=args.num_classes)

    for epoch in range(args.epochs):
        scheduler.step(epoch)
        loss = train_one_epoch(epoch, model, train_loader, optimizer, criterion, mixup_fn, device)
        acc = validate(model, val_loader, device)
        print(f"epoch {epoch} loss {loss:.4f} acc1 {acc:.1f}")


if __name__ == "__main__":
    main()
