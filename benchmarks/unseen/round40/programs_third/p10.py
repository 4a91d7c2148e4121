"""Small ViT on plankton thumbnails, built from timm parts (model, Mixup, loss, optimizer, schedule, EMA)."""
import argparse
import os
import random
import time

os.environ.setdefault("PJRT_DEVICE", "CPU")

import numpy as np
import torch
import torch_xla
import timm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2, accuracy
from torch.utils.data import DataLoader, TensorDataset


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--img-size", type=int, default=32)
    p.add_argument("--num-classes", type=int, default=6)
    p.add_argument("--batch-size", type=int, default=12)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--steps-per-epoch", type=int, default=6)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--mixup", type=float, default=0.2)
    p.add_argument("--cutmix", type=float, default=1.0)
    p.add_argument("--mixup-prob", type=float, default=1.0)
    p.add_argument("--mixup-switch-prob", type=float, default=0.5)
    p.add_argument("--smoothing", type=float, default=0.1)
    p.add_argument("--model-ema-decay", type=float, default=0.95)
    p.add_argument("--log-interval", type=int, default=3)
    p.add_argument("--seed", type=int, default=42)
    return p.parse_args([])


def plankton(n, args, seed):
    """Blobs of class-dependent size and elongation on noise."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, args.num_classes, n)
    yy, xx = np.mgrid[0:args.img_size, 0:args.img_size] / args.img_size - 0.5
    images = 0.3 * rng.normal(size=(n, 3, args.img_size, args.img_size))
    for i, c in enumerate(label):
        a = rng.uniform(0, np.pi)
        u, v = xx * np.cos(a) + yy * np.sin(a), -xx * np.sin(a) + yy * np.cos(a)
        sx, sy = 0.10 + 0.05 * (c % 3), 0.08 + 0.08 * (c // 3)
        images[i] += np.exp(-(u / sx) ** 2 - (v / sy) ** 2)
    return TensorDataset(torch.from_numpy(images.astype(np.float32)), torch.from_numpy(label))


def build_model(args):
    return timm.create_model(
        "vit_tiny_patch16_224",
        pretrained=False,
        img_size=args.img_size,
        patch_size=8,
        embed_dim=32,
        depth=1,
        num_heads=2,
        num_classes=args.num_classes,
    )


def train_one_epoch(epoch, model, ema, loader, loss_fn, optimizer, scheduler, mixup_fn, device, args):
    model.train()
    losses = AverageMeter()
    start = time.time()
    num_updates = epoch * len(loader)
    for batch_idx, (input, target) in enumerate(loader):
        input, target = input.to(device), target.to(device)
        if mixup_fn is not None:
            input, target = mixup_fn(input, target)

        output = model(input)
        loss = loss_fn(output, target)

        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        ema.update(model)
        torch_xla.sync()

        num_updates += 1
        scheduler.step_update(num_updates=num_updates)
        if (batch_idx + 1) % args.log_interval == 0:
            losses.update(loss.item(), input.size(0))
            lr = optimizer.param_groups[0]["lr"]
            print(
                f"Train: {epoch} [{batch_idx + 1:>3d}/{len(loader)}] "
                f"Loss: {losses.val:.4f} ({losses.avg:.4f}) LR: {lr:.2e} "
                f"Time: {time.time() - start:.1f}s",
                flush=True,
            )


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    top1 = AverageMeter()
    for input, target in loader:
        output = model(input.to(device))
        torch_xla.sync()
        (acc1,) = accuracy(output.cpu(), target, topk=(1,))
        top1.update(acc1.item(), input.size(0))
    return top1.avg


def main():
    args = parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch_xla.device()

    train_set = plankton(args.batch_size * args.steps_per_epoch, args, args.seed)
    valid_set = plankton(36, args, args.seed + 1)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
    valid_loader = DataLoader(valid_set, args.batch_size)

    model = build_model(args).to(device)
    ema = ModelEmaV2(model, decay=args.model_ema_decay)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=args.lr, weight_decay=0.05)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=args.epochs * args.steps_per_epoch, lr_min=1e-5,
        warmup_t=5, warmup_lr_init=1e-4, t_in_epochs=False,
    )
    mixup_fn = Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, prob=args.mixup_prob,
        switch_prob=args.mixup_switch_prob, label_smoothing=args.smoothing,
        num_classes=args.num_classes,
    )
    loss_fn = SoftTargetCrossEntropy()

    for epoch in range(args.epochs):
        train_one_epoch(
            epoch, model, ema, train_loader, loss_fn, optimizer, scheduler, mixup_fn, device, args
        )
        acc = validate(ema.module, valid_loader, device)
        print(f"Epoch {epoch}: EMA top-1 {acc:.1f}", flush=True)


if __name__ == "__main__":
    main()
