"""Image classification recipe on top of timm: mixup / cutmix, soft targets, EMA weights."""
import argparse
import math

import numpy as np
import torch
import torch_xla
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2, accuracy
from torch.utils.data import DataLoader, TensorDataset

NUM_CLASSES = 6
IMG = 32


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=0.1)
    p.add_argument("--mixup", type=float, default=0.2)
    p.add_argument("--cutmix", type=float, default=1.0)
    p.add_argument("--mixup-switch-prob", type=float, default=0.5)
    p.add_argument("--smoothing", type=float, default=0.1)
    p.add_argument("--model-ema-decay", type=float, default=0.9)
    p.add_argument("--seed", type=int, default=23)
    return p.parse_args([])


def make_images(n, seed):
    gen = torch.Generator().manual_seed(seed)
    y = torch.randint(0, NUM_CLASSES, (n,), generator=gen)
    axis = torch.linspace(-1, 1, IMG)
    gy, gx = torch.meshgrid(axis, axis, indexing="ij")
    angle = y.float() * math.pi / NUM_CLASSES
    wave = gx * angle.cos()[:, None, None] + gy * angle.sin()[:, None, None]
    phase = torch.rand(n, 1, 1, generator=gen) * 2 * math.pi
    img = torch.sin(8 * wave + phase)[:, None].repeat(1, 3, 1, 1)
    return TensorDataset(img + 0.4 * torch.randn(img.shape, generator=gen), y)


def build_model():
    return VisionTransformer(
        img_size=IMG, patch_size=8, embed_dim=24, depth=2, num_heads=3, mlp_ratio=2.0,
        num_classes=NUM_CLASSES, global_pool="avg", class_token=False,
    )


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, scheduler, mixup_fn, model_ema, device):
    losses = AverageMeter()
    model.train()
    updates = epoch * len(loader)
    for inputs, target in loader:
        inputs, target = inputs.to(device), target.to(device)
        if mixup_fn is not None:
            inputs, target = mixup_fn(inputs, target)

        output = model(inputs)
        loss = loss_fn(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model_ema.update(model)
        torch_xla.sync()

        updates += 1
        scheduler.step_update(num_updates=updates)
        losses.update(loss.item(), inputs.size(0))
    return losses.avg


@torch.no_grad()
def validate(model, loader, device):
    top1 = AverageMeter()
    model.eval()
    for inputs, target in loader:
        output = model(inputs.to(device))
        torch_xla.sync()
        (acc1,) = accuracy(output.cpu(), target, topk=(1,))
        top1.update(acc1.item(), inputs.size(0))
    return top1.avg


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    device = torch_xla.device()

    train_loader = DataLoader(make_images(128, 1), args.batch_size, shuffle=True, drop_last=True)
    valid_loader = DataLoader(make_images(32, 2), args.batch_size)

    model = build_model().to(device)
    model_ema = ModelEmaV2(model, decay=args.model_ema_decay)
    optimizer = create_optimizer_v2(model, opt="sgd", lr=args.lr, weight_decay=1e-4, momentum=0.9)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=args.epochs * len(train_loader), warmup_t=4, warmup_lr_init=1e-3, t_in_epochs=False
    )
    mixup_fn = Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, switch_prob=args.mixup_switch_prob,
        mode="batch", label_smoothing=args.smoothing, num_classes=NUM_CLASSES,
    )
    loss_fn = SoftTargetCrossEntropy()

    for epoch in range(args.epochs):
        train_loss = train_one_epoch(
            epoch, model, train_loader, optimizer, loss_fn, scheduler, mixup_fn, model_ema, device
        )
        acc = validate(model_ema.module, valid_loader, device)
        print(f"epoch {epoch} loss {train_loss:.4f} ema top1 {acc:.2f}")


if __name__ == "__main__":
    main()
