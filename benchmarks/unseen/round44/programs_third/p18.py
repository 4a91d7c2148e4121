"""Small timm ViT trained from scratch on synthetic textures with the usual timm
recipe: Mixup/CutMix, soft targets, layer decay, cosine schedule, DropPath."""
import argparse
import logging
import random

import numpy as np
import torch
import torch.nn as nn
import torch_xla
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, accuracy

_logger = logging.getLogger("train")


class Textures(torch.utils.data.Dataset):
    """Oriented gratings: the class is the orientation."""

    def __init__(self, n, num_classes, size, seed):
        rng = np.random.RandomState(seed)
        yy, xx = np.mgrid[0:size, 0:size] / size
        self.labels = rng.randint(0, num_classes, n)
        angle = np.pi * self.labels / num_classes
        phase, freq = rng.uniform(0, 6.28, n), rng.uniform(3, 5, n)
        arg = (xx[None] * np.cos(angle)[:, None, None] + yy[None] * np.sin(angle)[:, None, None])
        img = np.sin(6.28 * freq[:, None, None] * arg + phase[:, None, None])
        img = img[:, None] + 0.3 * rng.randn(n, 3, size, size)
        self.images = img.astype("float32")

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i], int(self.labels[i])


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--img-size", type=int, default=32)
    p.add_argument("--num-classes", type=int, default=8)
    p.add_argument("--opt", default="adamw")
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--weight-decay", type=float, default=0.05)
    p.add_argument("--layer-decay", type=float, default=0.9)
    p.add_argument("--drop-path", type=float, default=0.1)
    p.add_argument("--mixup", type=float, default=0.2)
    p.add_argument("--cutmix", type=float, default=1.0)
    p.add_argument("--mixup-prob", type=float, default=1.0)
    p.add_argument("--mixup-switch-prob", type=float, default=0.7)
    p.add_argument("--smoothing", type=float, default=0.1)
    p.add_argument("--clip-grad", type=float, default=1.0)
    p.add_argument("--seed", type=int, default=42)
    return p.parse_args()


def train_one_epoch(epoch, model, loader, optimizer, scheduler, loss_fn, args, device, mixup_fn):
    model.train()
    losses = AverageMeter()
    updates = epoch * len(loader)
    pending = []
    for images, target in loader:
        images, target = images.to(device), target.to(device)
        images, target = mixup_fn(images, target)
        output = model(images)
        loss = loss_fn(output, target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.clip_grad)
        optimizer.step()
        torch_xla.sync()
        updates += 1
        scheduler.step_update(num_updates=updates)
        pending.append((loss.detach(), images.size(0)))
    for loss, n in pending:
        losses.update(loss.item(), n)
    return losses.avg


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    top1, top3 = AverageMeter(), AverageMeter()
    for images, target in loader:
        output = model(images.to(device))
        torch_xla.sync()
        acc1, acc3 = accuracy(output.cpu(), target, topk=(1, 3))
        top1.update(acc1.item(), target.size(0))
        top3.update(acc3.item(), target.size(0))
    return top1.avg, top3.avg


def main():
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    args = get_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch_xla.device()

    model = VisionTransformer(
        img_size=args.img_size, patch_size=8, embed_dim=32, depth=2, num_heads=2,
        num_classes=args.num_classes, drop_path_rate=args.drop_path).to(device)
    optimizer = create_optimizer_v2(
        model, opt=args.opt, lr=args.lr, weight_decay=args.weight_decay,
        layer_decay=args.layer_decay)

    train = torch.utils.data.DataLoader(
        Textures(112, args.num_classes, args.img_size, 0), args.batch_size,
        shuffle=True, drop_last=True)
    val = torch.utils.data.DataLoader(
        Textures(64, args.num_classes, args.img_size, 1), args.batch_size)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=args.epochs * len(train), lr_min=1e-5, warmup_t=8,
        warmup_lr_init=1e-4, t_in_epochs=False)
    mixup_fn = Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, prob=args.mixup_prob,
        switch_prob=args.mixup_switch_prob, label_smoothing=args.smoothing,
        num_classes=args.num_classes)
    loss_fn = SoftTargetCrossEntropy()

    for epoch in range(args.epochs):
        loss = train_one_epoch(
            epoch, model, train, optimizer, scheduler, loss_fn, args, device, mixup_fn)
        acc1, acc3 = validate(model, val, device)
        _logger.info(f"epoch {epoch} loss {loss:.3f} top1 {acc1:.1f} top3 {acc3:.1f}")


if __name__ == "__main__":
    main()
