"""Train a miniature timm ViT on synthetic textile defects with the usual timm recipe (mixing, EMA, soft targets)."""
import argparse
import math
import random

import numpy as np
import timm
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data.mixup import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2, accuracy
from torch.utils.data import DataLoader, Dataset

CLASSES = ("clean", "stain", "hole", "slub", "float")


class Textile(Dataset):
    """Woven pattern with one optional defect."""

    def __init__(self, n, size, seed):
        self.n, self.size, self.seed = n, size, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 100003 + i)
        s = self.size
        yy, xx = np.mgrid[0:s, 0:s].astype(np.float32)
        period = rng.uniform(3.0, 5.0)
        img = 0.3 * np.sin(2 * math.pi * xx / period) * np.sin(2 * math.pi * yy / period)
        img = np.repeat(img[None], 3, axis=0)
        label = int(rng.integers(len(CLASSES)))
        cy, cx = rng.uniform(s * 0.25, s * 0.75, 2)
        r = np.hypot(yy - cy, xx - cx)
        if label == 1:
            img[2] -= 0.8 * np.exp(-(r / 6.0) ** 2)
        elif label == 2:
            img *= (r > 5.0)
        elif label == 3:
            img += 0.7 * (np.abs(yy - cy) < 1.5)
        elif label == 4:
            img += 0.7 * ((np.abs(xx - cx) < 1.5) & (np.abs(yy - cy) < 9))
        img = img + rng.normal(0, 0.1, img.shape)
        return torch.from_numpy(img.astype(np.float32)), label


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--img-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=0.1)
    p.add_argument("--warmup-epochs", type=int, default=1)
    p.add_argument("--mixup", type=float, default=0.2)
    p.add_argument("--cutmix", type=float, default=1.0)
    p.add_argument("--mixup-switch-prob", type=float, default=0.6)
    p.add_argument("--smoothing", type=float, default=0.1)
    p.add_argument("--ema-decay", type=float, default=0.9)
    p.add_argument("--seed", type=int, default=42)
    return p.parse_args()


def train_one_epoch(epoch, model, loader, optimizer, scheduler, loss_fn, mixup_fn, ema, device):
    losses = AverageMeter()
    model.train()
    num_updates = epoch * len(loader)
    for batch_idx, (images, target) in enumerate(loader):
        images = images.to(device)
        target = target.to(device)
        if mixup_fn is not None:
            images, target = mixup_fn(images, target)

        output = model(images)
        loss = loss_fn(output, target)

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        num_updates += 1
        ema.update(model)
        torch_xla.sync()

        scheduler.step_update(num_updates=num_updates)
        losses.update(loss.item(), images.size(0))
    return losses.avg


@torch.no_grad()
def validate(model, loader, device):
    top1 = AverageMeter()
    model.eval()
    for images, target in loader:
        images, target = images.to(device), target.to(device)
        output = model(images)
        (acc1,) = accuracy(output, target, topk=(1,))
        torch_xla.sync()
        top1.update(acc1.item(), images.size(0))
    return top1.avg


def main():
    args = parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch_xla.device()

    model = timm.create_model(
        "vit_tiny_patch16_224", pretrained=False, img_size=args.img_size, patch_size=8, embed_dim=36, depth=1,
        num_heads=3, norm_layer="rmsnorm", num_classes=len(CLASSES),
    ).to(device)
    optimizer = create_optimizer_v2(model, opt="sgd", lr=args.lr, weight_decay=1e-4)
    ema = ModelEmaV2(model, decay=args.ema_decay)

    train_loader = DataLoader(Textile(64, args.img_size, 1), batch_size=args.batch_size, shuffle=True,
                              drop_last=True)
    val_loader = DataLoader(Textile(32, args.img_size, 2), batch_size=args.batch_size)
    updates = len(train_loader)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=args.epochs * updates, lr_min=1e-3, warmup_t=args.warmup_epochs * updates,
        warmup_lr_init=1e-2, t_in_epochs=False,
    )
    mixup_fn = Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, switch_prob=args.mixup_switch_prob, mode="batch",
        label_smoothing=args.smoothing, num_classes=len(CLASSES),
    )
    loss_fn = SoftTargetCrossEntropy()

    for epoch in range(args.epochs):
        train_loss = train_one_epoch(epoch, model, train_loader, optimizer, scheduler, loss_fn, mixup_fn, ema, device)
        top1 = validate(ema.module, val_loader, device)
        xm.master_print(f"epoch {epoch} loss {train_loss:.4f} ema top1 {top1:.2f} "
                        f"lr {optimizer.param_groups[0]['lr']:.5f}")


if __name__ == "__main__":
    main()
