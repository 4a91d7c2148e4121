"""Train a small timm ViT from scratch with the usual DeiT-style recipe."""
import argparse
import random

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, accuracy
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--weight-decay", type=float, default=0.05)
parser.add_argument("--mixup", type=float, default=0.2)
parser.add_argument("--cutmix", type=float, default=1.0)
parser.add_argument("--smoothing", type=float, default=0.1)
parser.add_argument("--num-classes", type=int, default=5)
parser.add_argument("--img-size", type=int, default=32)
parser.add_argument("--seed", type=int, default=42)


def synthetic(n, args, seed):
    rng = np.random.RandomState(seed)
    y = rng.randint(0, args.num_classes, n)
    grid = np.linspace(0, 1, args.img_size)
    waves = np.sin(2 * np.pi * (1 + y)[:, None] * grid[None] + rng.rand(n, 1))
    x = waves[:, None, None, :] * np.ones((1, 3, args.img_size, 1)) + 0.3 * rng.randn(n, 3, args.img_size, args.img_size)
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))


def build_model(args):
    return VisionTransformer(img_size=args.img_size, patch_size=8, embed_dim=32, depth=1, num_heads=2,
                             mlp_ratio=2.0, num_classes=args.num_classes)


def train_one_epoch(epoch, model, loader, optimizer, scheduler, loss_fn, mixup_fn, device):
    model.train()
    losses = []
    updates = epoch * len(loader)
    for images, target in loader:
        images, target = images.to(device), target.to(device)
        if mixup_fn is not None:
            images, target = mixup_fn(images, target)
        loss = loss_fn(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        torch_xla.sync()
        updates += 1
        scheduler.step_update(num_updates=updates)
        losses.append(loss.detach())
    return float(np.mean([l.cpu().item() for l in losses]))


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    top1 = AverageMeter()
    for images, target in loader:
        output = model(images.to(device))
        torch_xla.sync()
        (acc,) = accuracy(output.cpu(), target)
        top1.update(acc.item(), images.size(0))
    return top1.avg


def main():
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = torch_xla.device()

    train = DataLoader(synthetic(7 * args.batch_size, args, 0), batch_size=args.batch_size, shuffle=True,
                       drop_last=True)
    val = DataLoader(synthetic(2 * args.batch_size, args, 1), batch_size=args.batch_size)

    model = build_model(args).to(device)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=args.lr, weight_decay=args.weight_decay)
    scheduler = CosineLRScheduler(optimizer, t_initial=args.epochs * len(train), t_in_epochs=False, lr_min=1e-5)
    mixup_fn = Mixup(mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, prob=1.0, switch_prob=0.5, mode="batch",
                     label_smoothing=args.smoothing, num_classes=args.num_classes)
    loss_fn = SoftTargetCrossEntropy()

    for epoch in range(args.epochs):
        loss = train_one_epoch(epoch, model, train, optimizer, scheduler, loss_fn, mixup_fn, device)
        print(f"[{epoch}] loss {loss:.4f} top1 {validate(model, val, device):.2f}")


if __name__ == "__main__":
    main()
