"""Fine-grained leaf classification with timm: small MLP-Mixer, CutMix/Mixup, cosine schedule."""
import random

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.mlp_mixer import MlpMixer
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import AverageMeter, accuracy
from torch.utils.data import DataLoader, Dataset

CLASSES = 8
IMG = 32
BATCH = 16
EPOCHS = 2
TRAIN_IMAGES = 144


class Leaves(Dataset):
    """Leaf-like blobs; the species sets the number of lobes and the tint."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, CLASSES, n)
        self.phase = rng.uniform(0, 2 * np.pi, n)
        self.noise = rng.integers(0, 2 ** 31, n)
        ax = np.linspace(-1, 1, IMG)
        yy, xx = np.meshgrid(ax, ax, indexing="ij")
        self.radius, self.angle = np.hypot(xx, yy), np.arctan2(yy, xx)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        y = int(self.labels[i])
        edge = 0.55 + 0.25 * np.cos((y + 2) * self.angle + self.phase[i])
        blob = 1.0 / (1.0 + np.exp((self.radius - edge) * 12))
        tint = np.array([0.3 + 0.08 * y, 0.9 - 0.06 * y, 0.4])
        img = tint[:, None, None] * blob
        img = img + np.random.default_rng(self.noise[i]).normal(0, 0.05, img.shape)
        return torch.from_numpy((img - 0.3) / 0.3).float(), y


def build(device):
    model = MlpMixer(
        num_classes=CLASSES, img_size=IMG, patch_size=8, num_blocks=1, embed_dim=32,
    ).to(device)
    optimizer = create_optimizer_v2(model, opt="momentum", lr=0.05, weight_decay=1e-4)
    scheduler, epochs = create_scheduler_v2(
        optimizer, sched="cosine", num_epochs=EPOCHS, warmup_epochs=1,
        warmup_lr=1e-3, min_lr=1e-4, step_on_epochs=False,
        updates_per_epoch=TRAIN_IMAGES // BATCH,
    )
    return model, optimizer, scheduler, epochs


def train_one_epoch(epoch, model, loader, optimizer, scheduler, loss_fn, mixup_fn, device):
    model.train()
    meter = AverageMeter()
    updates = epoch * len(loader)
    for i, (images, target) in enumerate(loader):
        images, target = images.to(device), target.to(device)
        images, target = mixup_fn(images, target)
        loss = loss_fn(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch_xla.sync()

        updates += 1
        scheduler.step_update(num_updates=updates)
        if i % 5 == 0:
            meter.update(loss.item(), images.size(0))
            lr = optimizer.param_groups[0]["lr"]
            print(f"train {epoch} [{i:2d}/{len(loader)}]  loss {meter.avg:.4f}  lr {lr:.2e}")
    return meter.avg


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    top1 = AverageMeter()
    for images, target in loader:
        images, target = images.to(device), target.to(device)
        output = model(images)
        torch_xla.sync()
        acc1, _ = accuracy(output.cpu(), target.cpu(), topk=(1, 3))
        top1.update(acc1.item(), images.size(0))
    return top1.avg


def main():
    random.seed(81)
    np.random.seed(81)
    torch.manual_seed(81)
    device = torch_xla.device()
    xm.set_rng_state(81, device)

    train_loader = DataLoader(Leaves(TRAIN_IMAGES, 82), BATCH, shuffle=True, drop_last=True)
    val_loader = DataLoader(Leaves(48, 83), BATCH, drop_last=True)
    model, optimizer, scheduler, epochs = build(device)
    mixup_fn = Mixup(mixup_alpha=0.2, cutmix_alpha=1.0, prob=1.0, switch_prob=0.6,
                     mode="batch", label_smoothing=0.1, num_classes=CLASSES)
    loss_fn = SoftTargetCrossEntropy()

    for epoch in range(EPOCHS):
        train_one_epoch(epoch, model, train_loader, optimizer, scheduler,
                        loss_fn, mixup_fn, device)
        top1 = validate(model, val_loader, device)
        print(f"epoch {epoch}  top-1 {top1:.2f}")
    print("epochs planned:", epochs)


if __name__ == "__main__":
    main()
