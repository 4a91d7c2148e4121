"""Train a small MLP-Mixer on synthetic textures with timm's training helpers."""
import argparse

import numpy as np
import torch
import torch.nn as nn
from timm.data.mixup import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.mlp_mixer import MlpMixer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, accuracy
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm


class Textures(Dataset):
    """Oriented gratings; the class is the orientation bin."""

    def __init__(self, size, n, classes, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, classes, size=n)
        grid = np.linspace(-1, 1, size)
        yy, xx = np.meshgrid(grid, grid, indexing="ij")
        angle = np.pi * self.labels / classes
        freq = rng.uniform(5, 8, size=n)
        phase = rng.uniform(0, 2 * np.pi, size=n)
        wave = (np.cos(angle)[:, None, None] * xx + np.sin(angle)[:, None, None] * yy)
        img = np.sin(freq[:, None, None] * wave + phase[:, None, None])
        img = img[:, None] + 0.2 * rng.normal(size=(n, 3, size, size))
        self.images = img.astype(np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i]), int(self.labels[i])


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--img-size", type=int, default=32)
    ap.add_argument("--classes", type=int, default=8)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--mixup", type=float, default=0.2)
    ap.add_argument("--cutmix", type=float, default=1.0)
    ap.add_argument("--smoothing", type=float, default=0.1)
    ap.add_argument("--seed", type=int, default=42)
    return ap.parse_args()


def train_one_epoch(epoch, model, loader, optimizer, criterion, mixup_fn, scheduler,
                    device):
    model.train()
    updates = epoch * len(loader)
    last = None
    for images, labels in loader:
        images = images.to(device)
        labels = labels.to(device)
        images, targets = mixup_fn(images, labels)

        loss = criterion(model(images), targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch_xla.sync()

        updates += 1
        scheduler.step_update(num_updates=updates)
        last = loss
    return last.item()


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    top1 = AverageMeter()
    for images, labels in loader:
        logits = model(images.to(device))
        torch_xla.sync()
        acc1, = accuracy(logits.cpu(), labels, topk=(1,))
        top1.update(acc1.item(), images.size(0))
    return top1.avg


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    device = xm.xla_device()

    train_set = Textures(args.img_size, 10 * args.batch_size, args.classes, seed=1)
    val_set = Textures(args.img_size, 4 * args.batch_size, args.classes, seed=2)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, args.batch_size)

    model = MlpMixer(num_classes=args.classes, img_size=args.img_size, patch_size=8,
                     num_blocks=1, embed_dim=32).to(device)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=args.lr, weight_decay=0.05)
    steps = args.epochs * len(train_loader)
    scheduler = CosineLRScheduler(optimizer, t_initial=steps, lr_min=1e-5,
                                  warmup_t=4, warmup_lr_init=1e-4,
                                  t_in_epochs=False)
    mixup_fn = Mixup(mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, prob=1.0,
                     switch_prob=0.5, mode="batch", label_smoothing=args.smoothing,
                     num_classes=args.classes)
    criterion = SoftTargetCrossEntropy()
    torch_xla.sync()

    for epoch in range(args.epochs):
        loss = train_one_epoch(epoch, model, train_loader, optimizer, criterion,
                               mixup_fn, scheduler, device)
        top1 = validate(model, val_loader, device)
        print(f"epoch {epoch} loss {loss:.4f} top1 {top1:.2f}")


if __name__ == "__main__":
    main()
