"""Wood-defect classification of board scans with a small timm ViT, soft targets
from mixup/cutmix, and an exponential average of the weights for evaluation."""
import argparse
import time
from collections import OrderedDict

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2
from torch.utils.data import DataLoader, TensorDataset

CLASSES = ("clear", "knot", "split", "stain")


def get_args():
    p = argparse.ArgumentParser(description="board scans")
    p.add_argument("--img-size", type=int, default=24)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--train-size", type=int, default=72)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--mixup", type=float, default=0.2)
    p.add_argument("--cutmix", type=float, default=1.0)
    p.add_argument("--mixup-switch-prob", type=float, default=0.7)
    p.add_argument("--smoothing", type=float, default=0.1)
    p.add_argument("--model-ema-decay", type=float, default=0.95)
    return p.parse_args([])


def make_boards(n, size, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(0.5, 0.05, (n, 3, size, size)).astype("float32")
    grain = np.sin(np.arange(size) / 1.5)[None, None, None, :]
    x += 0.1 * grain.astype("float32")
    y = rng.integers(0, len(CLASSES), n)
    yy, xx = np.mgrid[:size, :size]
    for i, c in enumerate(y):
        a, b = rng.integers(5, size - 5, 2)
        if c == 1:
            x[i, :, (yy - a) ** 2 + (xx - b) ** 2 < 9] -= 0.4
        elif c == 2:
            x[i, :, a, 3:-3] -= 0.5
        elif c == 3:
            x[i, 2, max(a - 4, 0):a + 4, max(b - 4, 0):b + 4] -= 0.4
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


def build(args, device):
    model = VisionTransformer(
        img_size=args.img_size, patch_size=6, num_classes=len(CLASSES),
        embed_dim=32, depth=1, num_heads=2, mlp_ratio=2.0).to(device)
    optimizer = create_optimizer_v2(model, opt="momentum", lr=args.lr, weight_decay=1e-4)
    ema = ModelEmaV2(model, decay=args.model_ema_decay)
    return model, optimizer, ema


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, device, mixup_fn, scheduler, ema):
    model.train()
    losses = AverageMeter()
    pending = []
    updates = epoch * len(loader)
    for images, target in loader:
        images, target = images.to(device), target.to(device)
        images, target = mixup_fn(images, target)
        optimizer.zero_grad()
        loss = loss_fn(model(images), target)
        loss.backward()
        optimizer.step()
        ema.update(model)
        xm.mark_step()
        pending.append(loss.detach())
        updates += 1
        scheduler.step_update(num_updates=updates)
    for v in pending:
        losses.update(v.item(), loader.batch_size)
    return OrderedDict(loss=losses.avg, lr=optimizer.param_groups[0]["lr"])


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    correct = torch.zeros((), device=device)
    seen = 0
    for images, target in loader:
        pred = model(images.to(device)).argmax(1)
        correct += (pred == target.to(device)).sum()
        seen += len(target)
        xm.mark_step()
    return OrderedDict(top1=100 * correct.item() / seen)


def main():
    args = get_args()
    np.random.seed(8)
    torch.manual_seed(8)
    device = torch_xla.device()
    train = DataLoader(make_boards(args.train_size, args.img_size, 0), args.batch_size,
                       shuffle=True, drop_last=True)
    val = DataLoader(make_boards(32, args.img_size, 1), 16)
    model, optimizer, ema = build(args, device)
    mixup_fn = Mixup(mixup_alpha=args.mixup, cutmix_alpha=args.cutmix,
                     switch_prob=args.mixup_switch_prob, label_smoothing=args.smoothing,
                     num_classes=len(CLASSES))
    scheduler = CosineLRScheduler(optimizer, t_initial=args.epochs * len(train), t_in_epochs=False)
    loss_fn = SoftTargetCrossEntropy()
    for epoch in range(args.epochs):
        tic = time.time()
        stats = train_one_epoch(epoch, model, train, optimizer, loss_fn, device, mixup_fn, scheduler, ema)
        stats.update(validate(ema.module, val, device))
        print(epoch, " ".join(f"{k}={v:.4g}" for k, v in stats.items()), f"({time.time() - tic:.1f}s)")


if __name__ == "__main__":
    main()
