#!/usr/bin/env python
"""Fine-grained classification of wood species from macroscopic cross sections."""
import argparse
import logging
import math

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import timm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2, accuracy

_logger = logging.getLogger("wood")

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", default="test_vit")
parser.add_argument("--img-size", type=int, default=32)
parser.add_argument("--num-classes", type=int, default=6)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--train-images", type=int, default=192)
parser.add_argument("--val-images", type=int, default=64)
parser.add_argument("--opt", default="momentum")
parser.add_argument("--lr", type=float, default=2e-2)
parser.add_argument("--weight-decay", type=float, default=1e-4)
parser.add_argument("--smoothing", type=float, default=0.1)
parser.add_argument("--mixup", type=float, default=0.4)
parser.add_argument("--cutmix", type=float, default=1.0)
parser.add_argument("--ema-decay", type=float, default=0.98)
parser.add_argument("--seed", type=int, default=42)


class CrossSections(torch.utils.data.Dataset):
    """Growth rings and vessels drawn with species-dependent spacing."""

    def __init__(self, n, size, classes, seed):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[:size, :size] / size
        self.labels = rng.integers(0, classes, n)
        self.images = np.empty((n, 3, size, size), np.float32)
        for i, species in enumerate(self.labels):
            bend = rng.uniform(-0.3, 0.3)
            rings = np.sin(2 * math.pi * (2 + species) * (yy + bend * xx**2) + rng.uniform(0, 6))
            pores = (rng.random((size, size)) < 0.02 * (1 + species)).astype(np.float32)
            tone = np.array([0.6, 0.4, 0.25])[:, None, None] + 0.05 * rng.normal(size=(3, 1, 1))
            self.images[i] = tone + 0.15 * rings - 0.4 * pores

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.from_numpy((self.images[i] - 0.4) / 0.2), int(self.labels[i])


def train_one_epoch(epoch, model, ema, loader, opt, loss_fn, mixup_fn, scheduler, device):
    model.train()
    meter = AverageMeter()
    updates = epoch * len(loader)
    for i, (images, labels) in enumerate(loader):
        images, labels = images.to(device), labels.to(device)
        if mixup_fn is not None:
            images, labels = mixup_fn(images, labels)
        loss = loss_fn(model(images), labels)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        xm.optimizer_step(opt)
        ema.update(model)
        torch_xla.sync()
        scheduler.step_update(num_updates=updates + i + 1)
        if i % 6 == 5:
            meter.update(loss.item(), images.size(0))
            _logger.info("Train: %d [%2d/%d]  Loss: %.3f  LR: %.2e",
                         epoch, i + 1, len(loader), meter.avg, opt.param_groups[0]["lr"])


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    top1 = AverageMeter()
    for images, labels in loader:
        logits = model(images.to(device))
        torch_xla.sync()
        acc1, = accuracy(logits.cpu(), labels, topk=(1,))
        top1.update(acc1.item(), labels.size(0))
    return top1.avg


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s", force=True)
    args = parser.parse_args()
    timm.utils.random_seed(args.seed)
    device = torch_xla.device()

    model = timm.create_model(
        args.model, pretrained=False, num_classes=args.num_classes,
        img_size=args.img_size, depth=1, embed_dim=48, num_heads=2,
    ).to(device)
    ema = ModelEmaV2(model, decay=args.ema_decay)
    opt = create_optimizer_v2(model, opt=args.opt, lr=args.lr, weight_decay=args.weight_decay)

    make = lambda n, seed: CrossSections(n, args.img_size, args.num_classes, seed)
    train_loader = torch.utils.data.DataLoader(
        make(args.train_images, 1), batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_loader = torch.utils.data.DataLoader(make(args.val_images, 2), batch_size=args.batch_size)

    mixup_fn = Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, prob=1.0, switch_prob=0.5,
        mode="batch", label_smoothing=args.smoothing, num_classes=args.num_classes,
    )
    loss_fn = SoftTargetCrossEntropy()
    scheduler = CosineLRScheduler(
        opt, t_initial=args.epochs * len(train_loader), warmup_t=6, warmup_lr_init=1e-3, t_in_epochs=False
    )
    for epoch in range(args.epochs):
        train_one_epoch(epoch, model, ema, train_loader, opt, loss_fn, mixup_fn, scheduler, device)
        _logger.info("Val: %d  acc@1 %.1f  (ema %.1f)", epoch,
                     validate(model, val_loader, device), validate(ema.module, val_loader, device))


if __name__ == "__main__":
    main()
