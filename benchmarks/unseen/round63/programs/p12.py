"""Zooplankton silhouettes: one-block ViT from timm with the usual recipe
(Mixup/CutMix, soft targets, EMA, cosine schedule)."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")

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
from timm.utils import AverageMeter, ModelEmaV2
from torch.utils.data import DataLoader, TensorDataset

SEED = 77
CLASSES = 5
SIZE = 32
BATCH = 16
EPOCHS = 2


def render(kind, rng):
    """Draws one grayscale silhouette: the class sets elongation and appendages."""
    yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    cy, cx = rng.uniform(11, SIZE - 11, size=2)
    theta = rng.uniform(0, np.pi)
    u = (xx - cx) * np.cos(theta) + (yy - cy) * np.sin(theta)
    v = -(xx - cx) * np.sin(theta) + (yy - cy) * np.cos(theta)
    a, b = 5.0 + 1.5 * kind, 8.0 - 1.1 * kind
    body = ((u / a) ** 2 + (v / b) ** 2 < 1).astype(np.float32)
    if kind % 2:
        body = np.maximum(body, (np.abs(v) < 0.8) * (np.abs(u) < a + 7))
    img = body + rng.normal(0, 0.15, body.shape)
    return np.repeat(img[None], 3, axis=0).astype(np.float32)


def make_split(n, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, size=n)
    images = np.stack([render(int(k), rng) for k in labels])
    return TensorDataset(torch.from_numpy(images), torch.from_numpy(labels))


def train_one_epoch(epoch, model, ema, loader, mixup_fn, criterion, optimizer, scheduler, device):
    model.train()
    losses = []
    num_updates = epoch * len(loader)
    for images, target in loader:
        images = images.to(device)
        target = target.to(device)
        images, target = mixup_fn(images, target)

        output = model(images)
        loss = criterion(output, target)

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        num_updates += 1
        ema.update(model)
        scheduler.step_update(num_updates=num_updates)
        losses.append(loss.detach())
        xm.mark_step()

    meter = AverageMeter()
    for value in losses:
        meter.update(value.item(), BATCH)
    return meter.avg


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    correct = total = 0
    for images, target in loader:
        pred = model(images.to(device)).argmax(-1)
        hit = (pred == target.to(device)).sum()
        xm.mark_step()
        correct += hit.item()
        total += target.numel()
    return correct / total


def main():
    random.seed(SEED)
    np.random.seed(SEED)
    torch.manual_seed(SEED)
    device = torch_xla.device()

    train_loader = DataLoader(make_split(176, 1), batch_size=BATCH, shuffle=True, drop_last=True)
    val_loader = DataLoader(make_split(48, 2), batch_size=BATCH, drop_last=True)

    model = VisionTransformer(
        img_size=SIZE,
        patch_size=8,
        embed_dim=24,
        depth=1,
        num_heads=2,
        num_classes=CLASSES,
        global_pool="avg",
    ).to(device)
    optimizer = create_optimizer_v2(model, opt="sgd", lr=5e-2, weight_decay=5e-4)
    ema = ModelEmaV2(model, decay=0.98)
    scheduler = CosineLRScheduler(
        optimizer,
        t_initial=EPOCHS * len(train_loader),
        lr_min=1e-4,
        warmup_t=5,
        warmup_lr_init=1e-2,
        t_in_epochs=False,
    )
    mixup_fn = Mixup(
        mixup_alpha=0.4,
        cutmix_alpha=1.0,
        prob=1.0,
        switch_prob=0.6,
        mode="batch",
        label_smoothing=0.1,
        num_classes=CLASSES,
    )
    criterion = SoftTargetCrossEntropy()

    for epoch in range(EPOCHS):
        loss = train_one_epoch(
            epoch, model, ema, train_loader, mixup_fn, criterion, optimizer, scheduler, device
        )
        acc = validate(ema.module, val_loader, device)
        print(f"epoch {epoch}  loss {loss:.3f}  ema acc {acc:.3f}")


if __name__ == "__main__":
    main()
