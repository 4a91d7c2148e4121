"""Fine-grained texture recognition: tiny timm ViT with the usual DeiT-style recipe on one XLA device."""
import argparse
import math

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import timm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2
from torch.utils.data import DataLoader, Dataset


class Textures(Dataset):
    """Oriented gratings; the class is the (orientation, frequency) pair."""

    def __init__(self, n, size, num_classes, seed):
        g = torch.Generator().manual_seed(seed)
        self.labels = torch.randint(0, num_classes, (n,), generator=g)
        yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        imgs = []
        for y in self.labels.tolist():
            theta = math.pi * (y % 4) / 4
            freq = 0.35 + 0.35 * (y // 4)
            phase = torch.rand(3, 1, 1, generator=g) * 2 * math.pi
            wave = torch.sin(freq * (xx * math.cos(theta) + yy * math.sin(theta)) + phase)
            imgs.append(wave + 0.3 * torch.randn(3, size, size, generator=g))
        self.images = torch.stack(imgs)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i], self.labels[i]


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--img-size", type=int, default=32)
    p.add_argument("--num-classes", type=int, default=8)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--mixup", type=float, default=0.2)
    p.add_argument("--cutmix", type=float, default=1.0)
    p.add_argument("--mixup-switch-prob", type=float, default=0.6)
    p.add_argument("--smoothing", type=float, default=0.1)
    p.add_argument("--drop-path", type=float, default=0.05)
    p.add_argument("--ema-decay", type=float, default=0.9)
    p.add_argument("--seed", type=int, default=42)
    return p.parse_args()


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, scheduler, ema, mixup_fn, device):
    model.train()
    losses = AverageMeter()
    updates = epoch * len(loader)
    pending = []
    for images, target in loader:
        images = images.to(device)
        target = target.to(device)
        if mixup_fn is not None:
            images, target = mixup_fn(images, target)

        output = model(images)
        loss = loss_fn(output, target)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        ema.update(model)
        xm.mark_step()

        updates += 1
        scheduler.step_update(updates)
        pending.append(loss.detach())
    for value in pending:
        losses.update(value.item())
    return losses.avg


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    hits, seen = 0, 0
    for images, target in loader:
        pred = model(images.to(device)).argmax(-1)
        hits += (pred.cpu() == target).sum().item()
        seen += len(target)
    return hits / seen


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    import numpy as np
    np.random.seed(args.seed)
    device = torch_xla.device()

    train_set = Textures(14 * args.batch_size, args.img_size, args.num_classes, seed=0)
    val_set = Textures(2 * args.batch_size, args.img_size, args.num_classes, seed=1)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, args.batch_size, drop_last=True)

    model = timm.create_model(
        "vit_tiny_patch16_224", pretrained=False, img_size=args.img_size, patch_size=8, embed_dim=32,
        depth=2, num_heads=2, num_classes=args.num_classes, drop_path_rate=args.drop_path,
    ).to(device)
    ema = ModelEmaV2(model, decay=args.ema_decay)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=args.lr, weight_decay=0.05, foreach=False)
    total = args.epochs * len(train_loader)
    scheduler = CosineLRScheduler(optimizer, t_initial=total, lr_min=1e-5, warmup_t=5, warmup_lr_init=1e-4,
                                  t_in_epochs=False)
    mixup_fn = Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, prob=1.0, switch_prob=args.mixup_switch_prob,
        mode="batch", label_smoothing=args.smoothing, num_classes=args.num_classes,
    )
    loss_fn = SoftTargetCrossEntropy()

    for epoch in range(args.epochs):
        avg = train_one_epoch(epoch, model, train_loader, optimizer, loss_fn, scheduler, ema, mixup_fn, device)
        acc = validate(ema.module, val_loader, device)
        print(f"epoch {epoch}  loss {avg:.4f}  ema acc {acc:.3f}")


if __name__ == "__main__":
    main()
