"""Leaf-disease classifier: a very small ViT from timm with the usual recipe
(mixup/cutmix, soft targets, cosine schedule with warm-up, averaged weights).
"""
import argparse
import logging

import torch
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2, random_seed
from torch.utils.data import DataLoader, Dataset

_logger = logging.getLogger("leaves")


def get_args():
    p = argparse.ArgumentParser(description="leaf disease training")
    p.add_argument("--classes", type=int, default=6)
    p.add_argument("--img-size", type=int, default=32)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--train-size", type=int, default=128)
    p.add_argument("--mixup", type=float, default=0.8)
    p.add_argument("--cutmix", type=float, default=1.0)
    p.add_argument("--smoothing", type=float, default=0.1)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--ema-decay", type=float, default=0.95)
    return p.parse_args()


class Leaves(Dataset):
    """Random textures with class-dependent spot size and tint."""

    def __init__(self, n, classes, size, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(classes, (n,), generator=g)
        grid = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).float()
        centre = size * torch.rand(n, 2, 1, 1, generator=g)
        radius = 2.0 + 1.2 * self.y.view(-1, 1, 1)
        spot = torch.exp(-(grid[None] - centre).square().sum(1) / radius.square())
        tint = torch.tensor([0.3, 0.8, 0.2]).view(1, 3, 1, 1)
        self.x = tint - spot.unsqueeze(1) * 0.6 + 0.1 * torch.randn(n, 3, size, size, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def build_model(args):
    return VisionTransformer(img_size=args.img_size, patch_size=8, embed_dim=24, depth=1, num_heads=2,
                             mlp_ratio=2.0, num_classes=args.classes, drop_path_rate=0.0)


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, mixup_fn, scheduler, ema, updates):
    model.train()
    running = None
    for images, target in loader:
        images, target = mixup_fn(images, target)
        loss = loss_fn(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model)
        updates += 1
        scheduler.step_update(updates)
        running = loss.detach() if running is None else 0.9 * running + 0.1 * loss.detach()
    _logger.info("epoch %d  lr %.5f  loss %.4f", epoch, optimizer.param_groups[0]["lr"], running.item())
    return updates


@torch.no_grad()
def validate(model, loader):
    model.eval()
    top1 = AverageMeter()
    for images, target in loader:
        correct = (model(images).argmax(1) == target).float().mean()
        top1.update(correct.item(), images.shape[0])
    return top1.avg


def main():
    args = get_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    random_seed(0)
    device = torch_xla.device()

    train_loader = DataLoader(Leaves(args.train_size, args.classes, args.img_size, 1),
                              batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(Leaves(64, args.classes, args.img_size, 2), batch_size=args.batch_size)
    train_loader = pl.MpDeviceLoader(train_loader, device)
    val_loader = pl.MpDeviceLoader(val_loader, device)

    model = build_model(args).to(device)
    ema = ModelEmaV2(model, decay=args.ema_decay)
    optimizer = create_optimizer_v2(model, opt="momentum", lr=args.lr, weight_decay=0.02)
    per_epoch = args.train_size // args.batch_size
    scheduler = CosineLRScheduler(optimizer, t_initial=args.epochs * per_epoch, lr_min=1e-5,
                                  warmup_t=per_epoch, warmup_lr_init=1e-4, t_in_epochs=False)
    mixup_fn = Mixup(mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, switch_prob=0.5,
                     label_smoothing=args.smoothing, num_classes=args.classes)
    loss_fn = SoftTargetCrossEntropy()

    updates = 0
    for epoch in range(args.epochs):
        updates = train_one_epoch(epoch, model, train_loader, optimizer, loss_fn, mixup_fn,
                                  scheduler, ema, updates)
        _logger.info("epoch %d  top1 %.3f  ema %.3f", epoch, validate(model, val_loader),
                     validate(ema.module, val_loader))


if __name__ == "__main__":
    main()
