"""Fine-grained texture classification with timm, mixup/cutmix and a calibration readout."""
import argparse
import random

import numpy as np
import timm
import torch
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data.mixup import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2
from torch.utils.data import DataLoader, Dataset
from torchmetrics.classification import MulticlassAccuracy, MulticlassCalibrationError


class Textures(Dataset):
    """Oriented gratings; class is the (orientation, frequency) pair."""

    def __init__(self, size, img_size, num_classes, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, num_classes, size)
        self.phase = rng.uniform(0, 2 * np.pi, size)
        self.noise_seed = rng.integers(0, 2 ** 31, size)
        self.img_size = img_size
        self.num_classes = num_classes

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        label = int(self.labels[i])
        angle = np.pi * (label % 5) / 5
        freq = 3.0 if label < 5 else 6.0
        axis = np.linspace(-1, 1, self.img_size)
        yy, xx = np.meshgrid(axis, axis, indexing="ij")
        wave = np.sin(freq * np.pi * (xx * np.cos(angle) + yy * np.sin(angle)) + self.phase[i])
        noise = np.random.default_rng(self.noise_seed[i]).normal(0, 0.3, (3, self.img_size, self.img_size))
        return torch.tensor(wave[None] + noise, dtype=torch.float32), label


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--img-size", type=int, default=32)
    parser.add_argument("--num-classes", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--mixup", type=float, default=0.2)
    parser.add_argument("--cutmix", type=float, default=1.0)
    parser.add_argument("--smoothing", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=42)
    return parser.parse_args([])


def create_model(args):
    return timm.create_model(
        "vit_tiny_patch16_224", pretrained=False, img_size=args.img_size, patch_size=8,
        embed_dim=48, depth=1, num_heads=3, num_classes=args.num_classes)


def train_one_epoch(epoch, model, ema, loader, optimizer, scheduler, mixup_fn, loss_fn, device):
    model.train()
    meter = AverageMeter()
    losses = []
    updates = epoch * len(loader)
    for images, targets in loader:
        images, targets = images.to(device), targets.to(device)
        images, targets = mixup_fn(images, targets)
        loss = loss_fn(model(images), targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        ema.update(model)
        torch_xla.sync()
        losses.append((loss.detach(), images.size(0)))
        updates += 1
        scheduler.step_update(updates)
    for loss, n in losses:
        meter.update(loss.item(), n)
    return meter.avg


@torch.no_grad()
def validate(model, loader, accuracy, calibration, device):
    model.eval()
    accuracy.reset()
    for images, targets in loader:
        images, targets = images.to(device), targets.to(device)
        probs = F.softmax(model(images), dim=-1)
        accuracy.update(probs, targets)
        calibration.update(probs, targets)
        torch_xla.sync()
    return accuracy.compute().item(), calibration.compute().item()


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    random.seed(args.seed)
    device = xm.xla_device()

    train_set = Textures(5 * args.batch_size, args.img_size, args.num_classes, seed=1)
    val_set = Textures(2 * args.batch_size, args.img_size, args.num_classes, seed=2)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, args.batch_size)

    model = create_model(args).to(device)
    ema = ModelEmaV2(model, decay=0.98)
    optimizer = create_optimizer_v2(model, opt="momentum", lr=args.lr, weight_decay=1e-4)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=args.epochs * len(train_loader), warmup_t=6,
        warmup_lr_init=1e-3, t_in_epochs=False)
    mixup_fn = Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, prob=1.0, switch_prob=0.5,
        mode="batch", label_smoothing=args.smoothing, num_classes=args.num_classes)
    loss_fn = SoftTargetCrossEntropy()
    accuracy = MulticlassAccuracy(args.num_classes, average="micro", validate_args=False).to(device)
    calibration = MulticlassCalibrationError(args.num_classes, n_bins=10, validate_args=False).to(device)

    for epoch in range(args.epochs):
        train_loss = train_one_epoch(
            epoch, model, ema, train_loader, optimizer, scheduler, mixup_fn, loss_fn, device)
        top1, ece = validate(ema.module, val_loader, accuracy, calibration, device)
        print(f"epoch {epoch} train loss {train_loss:.4f} ema top1 {top1:.3f} ece {ece:.4f}")


if __name__ == "__main__":
    main()
