"""ViT training with the usual timm recipe (mixup/cutmix, soft targets, EMA, cosine schedule)."""
import argparse
from collections import OrderedDict

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2, accuracy, random_seed
from torch.utils.data import DataLoader, Dataset


class Blobs(Dataset):
    """Coloured gradients; the class decides the direction and the tint."""

    def __init__(self, n, classes=10, size=32, seed=0):
        self.n, self.classes, self.size, self.seed = n, classes, size, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100003 + i)
        label = i % self.classes
        ramp = torch.linspace(-1, 1, self.size)
        grid = ramp[None, :] * (label % 5 - 2) / 2 + ramp[:, None] * (label // 5 - 0.5)
        tint = torch.tensor([label % 2, label % 3, label % 4]).view(3, 1, 1) / 3.0
        return grid[None] + tint + 0.3 * torch.randn(3, self.size, self.size, generator=g), label


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--weight-decay", type=float, default=0.05)
    p.add_argument("--smoothing", type=float, default=0.1)
    p.add_argument("--mixup", type=float, default=0.8)
    p.add_argument("--cutmix", type=float, default=1.0)
    p.add_argument("--mixup-switch-prob", type=float, default=0.5)
    p.add_argument("--drop-path", type=float, default=0.1)
    p.add_argument("--model-ema-decay", type=float, default=0.99)
    p.add_argument("--num-classes", type=int, default=10)
    p.add_argument("--log-interval", type=int, default=6)
    return p.parse_args()


def build(args, device):
    model = VisionTransformer(img_size=32, patch_size=8, embed_dim=48, depth=2, num_heads=4,
                              num_classes=args.num_classes, drop_path_rate=args.drop_path).to(device)
    ema = ModelEmaV2(model, decay=args.model_ema_decay)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=args.lr, weight_decay=args.weight_decay)
    scheduler = CosineLRScheduler(optimizer, t_initial=args.epochs, lr_min=1e-5, warmup_t=1, warmup_lr_init=1e-4)
    return model, ema, optimizer, scheduler


def train_one_epoch(epoch, model, ema, loader, optimizer, loss_fn, mixup_fn, device, args):
    model.train()
    losses = AverageMeter()
    for i, (images, target) in enumerate(loader):
        images, target = images.to(device), target.to(device)
        if mixup_fn is not None:
            images, target = mixup_fn(images, target)
        loss = loss_fn(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model)
        xm.mark_step()
        if i % args.log_interval == 0:
            losses.update(loss.item(), args.batch_size)
            print(f"Train: {epoch} [{i:>3d}/{len(loader)}]  Loss: {losses.val:.4f} ({losses.avg:.4f})  LR: {optimizer.param_groups[0]['lr']:.2e}")
    return OrderedDict(loss=losses.avg)


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    top1 = AverageMeter()
    for images, target in loader:
        acc1, = accuracy(model(images.to(device)), target.to(device), topk=(1,))
        torch_xla.sync()
        top1.update(acc1.item(), images.shape[0])
    return OrderedDict(top1=top1.avg)


def main():
    args = get_args()
    random_seed(42)
    device = torch_xla.device()
    model, ema, optimizer, scheduler = build(args, device)
    mixup_fn = Mixup(mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, switch_prob=args.mixup_switch_prob,
                     label_smoothing=args.smoothing, num_classes=args.num_classes)
    train_loader = DataLoader(Blobs(128), args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(Blobs(64, seed=1), args.batch_size)
    for epoch in range(args.epochs):
        scheduler.step(epoch)
        train_metrics = train_one_epoch(epoch, model, ema, train_loader, optimizer, SoftTargetCrossEntropy(), mixup_fn, device, args)
        print(epoch, dict(train_metrics), dict(validate(ema.module, val_loader, device)))


if __name__ == "__main__":
    main()
