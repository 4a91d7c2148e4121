"""Isolated sign recognition from motion-energy images with a timm backbone."""
import numpy as np
import timm
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, accuracy
from torch.utils.data import DataLoader, Dataset

SIGNS = 10
SIZE = 32


class MotionEnergy(Dataset):
    """Two hand trajectories drawn into a three-channel energy image."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, SIGNS, n)
        self.noise = rng.integers(0, 2 ** 31, n)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        rng = np.random.default_rng(self.noise[i])
        label = int(self.labels[i])
        t = np.linspace(0, 1, 40)
        image = np.zeros((3, SIZE, SIZE), np.float32)
        for hand, phase in enumerate((0.0, 1.3)):
            fx, fy = 1 + label % 4, 1 + label // 4
            x = 0.5 + 0.35 * np.sin(2 * np.pi * fx * t + phase) + rng.normal(0, 0.02, 40)
            y = 0.5 + 0.35 * np.cos(2 * np.pi * fy * t) + rng.normal(0, 0.02, 40)
            xi = np.clip(x * SIZE, 0, SIZE - 1).astype(int)
            yi = np.clip(y * SIZE, 0, SIZE - 1).astype(int)
            image[hand, yi, xi] = 1.0
            image[2, yi, xi] += t.astype(np.float32)
        return torch.from_numpy(image), label


def train_epoch(model, loader, optimizer, criterion, mixup, scheduler, epoch, device):
    model.train()
    losses = AverageMeter()
    updates = epoch * len(loader)
    for images, labels in loader:
        images = images.to(device)
        labels = labels.to(device)
        images, targets = mixup(images, labels)
        loss = criterion(model(images), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        updates += 1
        scheduler.step_update(updates)
        torch_xla.sync()
        losses.update(loss.item(), images.size(0))
    return losses.avg


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    top1 = AverageMeter()
    for images, labels in loader:
        output = model(images.to(device))
        (acc,) = accuracy(output.cpu(), labels)
        top1.update(acc.item(), labels.size(0))
    return top1.avg


def main():
    torch.manual_seed(19)
    np.random.seed(19)
    device = xm.xla_device()
    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=SIZE, patch_size=8, embed_dim=48, depth=1,
        num_heads=3, num_classes=SIGNS,
    ).to(device)
    train = DataLoader(MotionEnergy(128, 0), batch_size=16, shuffle=True, drop_last=True)
    valid = DataLoader(MotionEnergy(64, 1), batch_size=32)
    mixup = Mixup(mixup_alpha=0.2, cutmix_alpha=1.0, switch_prob=0.5,
                  label_smoothing=0.1, num_classes=SIGNS)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=2e-3, weight_decay=0.05)
    scheduler = CosineLRScheduler(optimizer, t_initial=4 * len(train), t_in_epochs=False,
                                  warmup_t=6, warmup_lr_init=1e-5)
    criterion = SoftTargetCrossEntropy()
    for epoch in range(4):
        loss = train_epoch(model, train, optimizer, criterion, mixup, scheduler, epoch, device)
        print(f"epoch {epoch}: loss {loss:.4f} top-1 {validate(model, valid, device):.1f}")


if __name__ == "__main__":
    main()
