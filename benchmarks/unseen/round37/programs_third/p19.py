"""Crop-disease classifier: a small timm network with the usual timm recipe."""
import argparse
import random

import numpy as np
import timm
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2, accuracy
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser(description="leaf training")
parser.add_argument("--model", default="vit_tiny_patch16_224")
parser.add_argument("--num-classes", type=int, default=8)
parser.add_argument("--img-size", type=int, default=32)
parser.add_argument("-b", "--batch-size", type=int, default=8)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--opt", default="sgd")
parser.add_argument("--lr", type=float, default=2e-2)
parser.add_argument("--weight-decay", type=float, default=0.02)
parser.add_argument("--warmup-epochs", type=int, default=1)
parser.add_argument("--mixup", type=float, default=0.2)
parser.add_argument("--cutmix", type=float, default=1.0)
parser.add_argument("--mixup-switch-prob", type=float, default=0.5)
parser.add_argument("--smoothing", type=float, default=0.1)
parser.add_argument("--model-ema-decay", type=float, default=0.99)
parser.add_argument("--log-interval", type=int, default=3)
parser.add_argument("--seed", type=int, default=42)


class Leaves(Dataset):
    """Green blobs with class-dependent spots."""

    def __init__(self, n, size, classes, seed):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[0:size, 0:size].astype(np.float32) / size
        self.labels = rng.integers(0, classes, n)
        imgs = 0.1 * rng.standard_normal((n, 3, size, size))
        imgs[:, 1] += np.exp(-8 * ((yy - 0.5) ** 2 + (xx - 0.5) ** 2))
        freq = (2 + self.labels)[:, None, None]
        imgs[:, 0] += 0.5 * np.sin(2 * np.pi * freq * xx) * np.sin(2 * np.pi * freq * yy)
        self.imgs = imgs.astype(np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.imgs[i], int(self.labels[i])


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, mixup_fn, scheduler, ema, args, device):
    model.train()
    losses = AverageMeter()
    num_updates = epoch * len(loader)
    for batch_idx, (image, target) in enumerate(loader):
        image, target = image.to(device), target.to(device)
        if mixup_fn is not None:
            image, target = mixup_fn(image, target)

        loss = loss_fn(model(image), target)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        ema.update(model)
        xm.mark_step()

        num_updates += 1
        scheduler.step_update(num_updates)
        if (batch_idx + 1) % args.log_interval == 0:
            losses.update(loss.item(), image.size(0))
            print(f"train {epoch} [{batch_idx + 1}/{len(loader)}] loss {losses.avg:.4f} "
                  f"lr {optimizer.param_groups[0]['lr']:.2e}")
    return losses.avg


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    top1 = AverageMeter()
    for image, target in loader:
        output = model(image.to(device))
        xm.mark_step()
        acc1, = accuracy(output.cpu(), target, topk=(1,))
        top1.update(acc1.item(), target.size(0))
    return top1.avg


def main():
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = xm.xla_device()

    loader_train = DataLoader(Leaves(72, args.img_size, args.num_classes, 0),
                              batch_size=args.batch_size, shuffle=True, drop_last=True)
    loader_eval = DataLoader(Leaves(32, args.img_size, args.num_classes, 1),
                             batch_size=args.batch_size, drop_last=True)

    model = timm.create_model(
        args.model, pretrained=False, num_classes=args.num_classes,
        img_size=args.img_size, patch_size=8, embed_dim=32, depth=1, num_heads=2).to(device)
    ema = ModelEmaV2(model, decay=args.model_ema_decay)
    optimizer = create_optimizer_v2(
        model, opt=args.opt, lr=args.lr, weight_decay=args.weight_decay, foreach=False)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=args.epochs * len(loader_train), lr_min=1e-5,
        warmup_t=args.warmup_epochs * len(loader_train) // 2, warmup_lr_init=1e-5,
        t_in_epochs=False)
    mixup_fn = Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix,
        switch_prob=args.mixup_switch_prob, mode="batch",
        label_smoothing=args.smoothing, num_classes=args.num_classes)
    loss_fn = SoftTargetCrossEntropy()
    scheduler.step_update(0)
    xm.mark_step()

    best = 0.0
    for epoch in range(args.epochs):
        train_one_epoch(epoch, model, loader_train, optimizer, loss_fn, mixup_fn,
                        scheduler, ema, args, device)
        top1 = validate(ema.module, loader_eval, device)
        best = max(best, top1)
        print(f"epoch {epoch} ema top1 {top1:.2f} (best {best:.2f})")


if __name__ == "__main__":
    main()
