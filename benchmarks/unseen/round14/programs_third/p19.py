"""Leaf-disease classification with a small ViT from timm, mixup/cutmix and an EMA model."""
import argparse

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import param_groups_weight_decay
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2

CLASSES = 6
IMG = 24


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--steps-per-epoch", type=int, default=9)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--weight-decay", type=float, default=1e-4)
    p.add_argument("--mixup", type=float, default=0.4)
    p.add_argument("--cutmix", type=float, default=1.0)
    p.add_argument("--mixup-switch-prob", type=float, default=0.6)
    p.add_argument("--smoothing", type=float, default=0.1)
    p.add_argument("--model-ema-decay", type=float, default=0.95)
    p.add_argument("--seed", type=int, default=19)
    return p.parse_args()


class LeafImages:
    """Green blobs with class-dependent lesions; stands in for the photo archive."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)
        yy, xx = torch.meshgrid(torch.arange(IMG), torch.arange(IMG), indexing="ij")
        self.radius = ((yy - IMG / 2) ** 2 + (xx - IMG / 2) ** 2).float().sqrt()

    def batch(self, n):
        label = torch.randint(0, CLASSES, (n,), generator=self.gen)
        img = 0.1 * torch.randn(n, 3, IMG, IMG, generator=self.gen)
        img[:, 1] += torch.sigmoid(10 - self.radius)
        ring = torch.exp(-0.5 * (self.radius - 1.5 * label.view(-1, 1, 1)) ** 2)
        img[:, 0] += 0.8 * ring
        return img, label


def build_model():
    return VisionTransformer(
        img_size=IMG, patch_size=8, num_classes=CLASSES, embed_dim=32, depth=1,
        num_heads=2, mlp_ratio=1.0, global_pool="avg", class_token=False,
    )


def train_one_epoch(epoch, args, model, ema, images, mixup, loss_fn, optimizer, scheduler, device):
    model.train()
    meter = AverageMeter()
    updates = epoch * args.steps_per_epoch
    for i in range(args.steps_per_epoch):
        image, label = images.batch(args.batch_size)
        image, label = image.to(device), label.to(device)
        image, soft = mixup(image, label)

        loss = loss_fn(model(image), soft)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model)
        torch_xla.sync()

        updates += 1
        scheduler.step_update(num_updates=updates)
        if i % 4 == 3:
            meter.update(loss.item(), args.batch_size)
            print(f"Train: {epoch} [{i + 1:>3d}/{args.steps_per_epoch}]  "
                  f"Loss: {meter.val:.3f} ({meter.avg:.3f})  "
                  f"LR: {optimizer.param_groups[0]['lr']:.2e}")
    return meter.avg


@torch.no_grad()
def validate(model, images, batches, device):
    model.eval()
    top1 = AverageMeter()
    for _ in range(batches):
        image, label = images.batch(32)
        output = model(image.to(device))
        correct = output.argmax(dim=1).eq(label.to(device)).float().mean()
        torch_xla.sync()
        top1.update(100 * correct.item(), len(label))
    return top1.avg


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    device = torch_xla.device()

    model = build_model().to(device)
    optimizer = torch.optim.SGD(
        param_groups_weight_decay(model, args.weight_decay), lr=args.lr, momentum=0.9, nesterov=True,
    )
    total = args.epochs * args.steps_per_epoch
    scheduler = CosineLRScheduler(
        optimizer, t_initial=total, lr_min=1e-4, warmup_t=5, warmup_lr_init=1e-3, t_in_epochs=False,
    )
    mixup = Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, switch_prob=args.mixup_switch_prob,
        label_smoothing=args.smoothing, num_classes=CLASSES,
    )
    ema = ModelEmaV2(model, decay=args.model_ema_decay)
    loss_fn = SoftTargetCrossEntropy()
    images, held_out = LeafImages(args.seed), LeafImages(args.seed + 1)

    for epoch in range(args.epochs):
        avg = train_one_epoch(
            epoch, args, model, ema, images, mixup, loss_fn, optimizer, scheduler, device,
        )
        top1 = validate(ema.module, held_out, 2, device)
        xm.master_print(f"Epoch {epoch}: train loss {avg:.3f}, EMA top-1 {top1:.1f}")


if __name__ == "__main__":
    main()
