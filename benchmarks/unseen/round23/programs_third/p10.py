"""Tiny MLP-Mixer with the usual timm recipe (mixup/cutmix, soft targets, EMA, cosine)."""
import random
from types import SimpleNamespace

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.mlp_mixer import MlpMixer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2, accuracy
from torch.utils.data import DataLoader, TensorDataset

args = SimpleNamespace(
    img_size=16, patch_size=4, classes=5, batch_size=16, epochs=2, train_size=160, val_size=64,
    lr=5e-3, weight_decay=0.05, warmup_epochs=1, smoothing=0.1,
    mixup=0.2, cutmix=1.0, mixup_switch_prob=0.5, ema_decay=0.95, seed=42,
)


def stripes(n, seed):
    """Oriented gratings, one orientation per class."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, args.classes, (n,), generator=g)
    phase = torch.rand(n, 1, 1, generator=g) * 6.28
    ang = y[:, None, None] * (np.pi / args.classes)
    r = torch.arange(args.img_size).float()
    wave = torch.sin(0.9 * (r[None, :, None] * torch.sin(ang) + r[None, None] * torch.cos(ang)) + phase)
    x = wave[:, None].repeat(1, 3, 1, 1) + 0.3 * torch.randn(n, 3, args.img_size, args.img_size, generator=g)
    return TensorDataset(x, y)


def build():
    return MlpMixer(
        num_classes=args.classes, img_size=args.img_size, patch_size=args.patch_size,
        num_blocks=1, embed_dim=32)


def train_one_epoch(epoch, model, ema, loader, optimizer, scheduler, mixup_fn, loss_fn, updates):
    model.train()
    losses = []
    for images, target in loader:
        images, target = mixup_fn(images, target)
        optimizer.zero_grad()
        loss = loss_fn(model(images), target)
        loss.backward()
        xm.optimizer_step(optimizer)
        ema.update(model)
        updates += 1
        scheduler.step_update(updates)
        losses.append(loss.detach())
    print(f"epoch {epoch} loss {np.mean([l.item() for l in losses]):.4f} lr {optimizer.param_groups[0]['lr']:.5f}")
    return updates


@torch.no_grad()
def validate(model, loader):
    model.eval()
    top1 = AverageMeter()
    outputs = []
    for images, target in loader:
        outputs.append((model(images), target))
    for logits, target in outputs:
        acc1, = accuracy(logits.cpu(), target.cpu(), topk=(1,))
        top1.update(acc1.item(), len(target))
    return top1.avg


def main():
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch_xla.device()
    train_loader = pl.MpDeviceLoader(
        DataLoader(stripes(args.train_size, 0), args.batch_size, shuffle=True, drop_last=True), device)
    val_loader = pl.MpDeviceLoader(DataLoader(stripes(args.val_size, 1), args.batch_size), device)

    model = build().to(device)
    ema = ModelEmaV2(model, decay=args.ema_decay)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=args.lr, weight_decay=args.weight_decay)
    steps = args.train_size // args.batch_size
    scheduler = CosineLRScheduler(
        optimizer, t_initial=args.epochs * steps, warmup_t=args.warmup_epochs * steps,
        warmup_lr_init=1e-4, t_in_epochs=False)
    mixup_fn = Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, switch_prob=args.mixup_switch_prob,
        label_smoothing=args.smoothing, num_classes=args.classes)
    loss_fn = SoftTargetCrossEntropy()

    updates = 0
    for epoch in range(args.epochs):
        updates = train_one_epoch(
            epoch, model, ema, train_loader, optimizer, scheduler, mixup_fn, loss_fn, updates)
        print(f"epoch {epoch} val top1 {validate(model, val_loader):.1f} ema {validate(ema.module, val_loader):.1f}")


if __name__ == "__main__":
    main()
