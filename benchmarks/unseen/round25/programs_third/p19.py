"""Fine-grained texture classification with a tiny timm ViT, CutMix/Mixup and label smoothing."""
import argparse

import numpy as np
import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2, accuracy
from torch.utils.data import DataLoader, TensorDataset
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--classes", type=int, default=5)
parser.add_argument("--img-size", type=int, default=32)
parser.add_argument("--mixup", type=float, default=0.2)
parser.add_argument("--cutmix", type=float, default=1.0)
parser.add_argument("--smoothing", type=float, default=0.1)
parser.add_argument("--lr", type=float, default=2e-3)


def textures(n, classes, size, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, size=n)
    yy, xx = np.mgrid[:size, :size].astype(np.float32)
    ang = y / classes * np.pi
    wave = np.sin(0.9 * (np.cos(ang)[:, None, None] * xx + np.sin(ang)[:, None, None] * yy)
                  + rng.uniform(0, 6.28, size=(n, 1, 1)))
    x = np.repeat(wave[:, None], 3, axis=1) + 0.3 * rng.standard_normal((n, 3, size, size))
    return TensorDataset(torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y.astype(np.int64)))


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, mixup_fn, scheduler, updates):
    model.train()
    meter = AverageMeter()
    pending = []
    for images, target in loader:
        if mixup_fn is not None:
            images, target = mixup_fn(images, target)
        output = model(images)
        loss = loss_fn(output, target)
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        updates += 1
        scheduler.step_update(num_updates=updates)
        pending.append((loss.detach(), images.size(0)))
    for value, n in pending:
        meter.update(value.item(), n)
    xm.master_print(f"train {epoch}: loss {meter.avg:.4f} lr {optimizer.param_groups[0]['lr']:.2e}")
    return updates


@torch.no_grad()
def validate(model, loader):
    model.eval()
    top1 = AverageMeter()
    for images, target in loader:
        output = model(images)
        (acc1,) = accuracy(output.cpu(), target.cpu(), topk=(1,))
        top1.update(acc1.item(), images.size(0))
    return top1.avg


def main():
    args = parser.parse_args()
    torch.manual_seed(0)
    np.random.seed(0)
    device = xm.xla_device()
    model = timm.create_model(
        "vit_tiny_patch16_224", pretrained=False, img_size=args.img_size, patch_size=8,
        embed_dim=24, depth=1, num_heads=2, num_classes=args.classes,
    ).to(device)
    train_set = textures(208, args.classes, args.img_size, 0)
    val_set = textures(64, args.classes, args.img_size, 1)
    train_loader = pl.MpDeviceLoader(
        DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True), device)
    val_loader = pl.MpDeviceLoader(DataLoader(val_set, batch_size=args.batch_size), device)

    mixup_fn = Mixup(mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, prob=1.0, switch_prob=0.5,
                     mode="batch", label_smoothing=args.smoothing, num_classes=args.classes)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=args.lr, weight_decay=0.02)
    per_epoch = len(train_loader)
    scheduler = CosineLRScheduler(optimizer, t_initial=args.epochs * per_epoch, lr_min=1e-5,
                                  t_in_epochs=False)
    loss_fn = SoftTargetCrossEntropy()
    updates = 0
    for epoch in range(args.epochs):
        updates = train_one_epoch(epoch, model, train_loader, optimizer, loss_fn, mixup_fn,
                                  scheduler, updates)
        xm.master_print(f"valid {epoch}: top1 {validate(model, val_loader):.2f}")


if __name__ == "__main__":
    main()
