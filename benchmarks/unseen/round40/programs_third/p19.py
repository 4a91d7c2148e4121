"""Trains a tiny ViT on synthetic textures with timm's optimizer, schedule, mixing and EMA."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

import argparse
import math

import timm.optim
import timm.scheduler
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.utils import AverageMeter, ModelEmaV2, accuracy, random_seed
from torch.utils.data import DataLoader, TensorDataset


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--img-size", type=int, default=32)
    parser.add_argument("--num-classes", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--opt", default="momentum")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("--warmup-epochs", type=int, default=1)
    parser.add_argument("--mixup", type=float, default=0.2)
    parser.add_argument("--cutmix", type=float, default=1.0)
    parser.add_argument("--mixup-switch-prob", type=float, default=0.6)
    parser.add_argument("--smoothing", type=float, default=0.1)
    parser.add_argument("--model-ema-decay", type=float, default=0.95)
    parser.add_argument("--log-interval", type=int, default=5)
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args()


def textures(count, size, num_classes, generator):
    """Oriented gratings; the class is the orientation."""
    labels = torch.randint(0, num_classes, (count,), generator=generator)
    angle = labels.float() * math.pi / num_classes
    axis = torch.linspace(-1, 1, size)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    wave = xx[None] * torch.cos(angle)[:, None, None] + yy[None] * torch.sin(angle)[:, None, None]
    freq = 6.0 + 6.0 * torch.rand(count, 1, 1, generator=generator)
    phase = 2 * math.pi * torch.rand(count, 1, 1, generator=generator)
    gray = torch.sin(freq * wave + phase)
    tint = torch.rand(count, 3, 1, 1, generator=generator)
    noise = 0.2 * torch.randn(count, 3, size, size, generator=generator)
    return TensorDataset(gray[:, None] * tint + noise, labels)


def create_model(args):
    return VisionTransformer(
        img_size=args.img_size,
        patch_size=8,
        embed_dim=32,
        depth=1,
        num_heads=2,
        mlp_ratio=2.0,
        num_classes=args.num_classes,
        global_pool="avg",
        class_token=False,
    )


def train_one_epoch(epoch, model, loader, optimizer, scheduler, loss_fn, mixup_fn, ema, device, args):
    model.train()
    losses = AverageMeter()
    updates = epoch * len(loader)
    for index, (images, target) in enumerate(loader):
        images, target = images.to(device), target.to(device)
        if mixup_fn is not None:
            images, target = mixup_fn(images, target)
        output = model(images)
        loss = loss_fn(output, target)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        xm.optimizer_step(optimizer)
        ema.update(model)
        torch_xla.sync()

        updates += 1
        scheduler.step_update(num_updates=updates)
        if (index + 1) % args.log_interval == 0:
            losses.update(loss.item(), images.size(0))
            lr = optimizer.param_groups[0]["lr"]
            print(f"Train: {epoch} [{index + 1}/{len(loader)}] loss {losses.val:.3f} lr {lr:.2e}")


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    top1 = AverageMeter()
    for images, target in loader:
        images, target = images.to(device), target.to(device)
        output = model(images)
        (acc1,) = accuracy(output, target, topk=(1,))
        torch_xla.sync()
        top1.update(acc1.item(), images.size(0))
    return top1.avg


def main():
    args = get_args()
    random_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    device = torch_xla.device()

    train_set = textures(160, args.img_size, args.num_classes, generator)
    val_set = textures(64, args.img_size, args.num_classes, generator)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, args.batch_size, drop_last=True)

    model = create_model(args).to(device)
    ema = ModelEmaV2(model, decay=args.model_ema_decay)
    optimizer = timm.optim.create_optimizer_v2(
        model, opt=args.opt, lr=args.lr, weight_decay=args.weight_decay
    )
    scheduler = timm.scheduler.CosineLRScheduler(
        optimizer,
        t_initial=args.epochs * len(train_loader),
        warmup_t=args.warmup_epochs * len(train_loader),
        warmup_lr_init=1e-5,
        lr_min=1e-5,
        t_in_epochs=False,
    )
    mixup_fn = None
    if args.mixup > 0 or args.cutmix > 0:
        mixup_fn = Mixup(
            mixup_alpha=args.mixup,
            cutmix_alpha=args.cutmix,
            switch_prob=args.mixup_switch_prob,
            label_smoothing=args.smoothing,
            num_classes=args.num_classes,
        )
    loss_fn = SoftTargetCrossEntropy()

    for epoch in range(args.epochs):
        train_one_epoch(
            epoch, model, train_loader, optimizer, scheduler, loss_fn, mixup_fn, ema, device, args
        )
        top1 = validate(ema.module, val_loader, device)
        print(f"Valid: {epoch} ema top1 {top1:.2f}")


if __name__ == "__main__":
    main()
