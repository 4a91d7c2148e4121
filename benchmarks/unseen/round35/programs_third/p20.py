"""Short ViT training run on synthetic leaf images with timm's recipe components."""
import os

os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import numpy as np
import timm
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2, accuracy
from torch.utils.data import DataLoader, Dataset

IMG = 32
CLASSES = 6
BATCH = 16
EPOCHS = 3
LOG_INTERVAL = 4


class Leaves(Dataset):
    """Ellipses with class dependent aspect, tint and stripes, plus per-image jitter."""

    mean = np.array([0.45, 0.5, 0.4], dtype=np.float32)[:, None, None]
    std = np.array([0.25, 0.25, 0.25], dtype=np.float32)[:, None, None]

    def __init__(self, n, seed, train):
        self.n, self.seed, self.train = n, seed, train
        self.yy, self.xx = np.mgrid[0:IMG, 0:IMG].astype(np.float32) / IMG - 0.5

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 100003 + i)
        label = i % CLASSES
        angle = rng.uniform(0, np.pi)
        cx, cy = rng.uniform(-0.1, 0.1, 2)
        u = np.cos(angle) * (self.xx - cx) + np.sin(angle) * (self.yy - cy)
        v = -np.sin(angle) * (self.xx - cx) + np.cos(angle) * (self.yy - cy)
        inside = (u / 0.42) ** 2 + (v / (0.12 + 0.04 * label)) ** 2 < 1
        stripes = 0.5 + 0.5 * np.sin(u * (20 + 8 * label))
        tint = np.array([0.2 + 0.1 * label, 0.8 - 0.08 * label, 0.3])
        img = np.where(inside, tint[:, None, None] * (0.6 + 0.4 * stripes), 0.5)
        img = img + rng.normal(0, 0.05, size=img.shape)
        if self.train and rng.random() < 0.5:
            img = img[:, :, ::-1]
        img = (img.astype(np.float32) - self.mean) / self.std
        return torch.from_numpy(np.ascontiguousarray(img)), label


def build_loaders():
    gen = torch.Generator().manual_seed(13)
    train = DataLoader(Leaves(96, seed=1, train=True), batch_size=BATCH, shuffle=True, drop_last=True, generator=gen)
    valid = DataLoader(Leaves(48, seed=2, train=False), batch_size=BATCH)
    return train, valid


def train_one_epoch(epoch, model, loader, optimizer, criterion, scheduler, mixup_fn, ema, device):
    model.train()
    losses = AverageMeter()
    updates = epoch * len(loader)
    pending = []
    for i, (images, target) in enumerate(loader):
        images, target = images.to(device), target.to(device)
        if mixup_fn is not None:
            images, target = mixup_fn(images, target)
        optimizer.zero_grad()
        loss = criterion(model(images), target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        xm.optimizer_step(optimizer)
        ema.update(model)
        torch_xla.sync()
        updates += 1
        scheduler.step_update(updates)
        pending.append(loss.detach())
        if (i + 1) % LOG_INTERVAL == 0 or i + 1 == len(loader):
            for value in pending:
                losses.update(value.item(), BATCH)
            pending.clear()
    print(f"epoch {epoch}  loss {losses.avg:.4f}  lr {optimizer.param_groups[0]['lr']:.2e}")


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    top1 = AverageMeter()
    for images, target in loader:
        images, target = images.to(device), target.to(device)
        acc1, = accuracy(model(images), target, topk=(1,))
        torch_xla.sync()
        top1.update(acc1.item(), target.numel())
    return top1.avg


def main():
    torch.manual_seed(13)
    np.random.seed(13)
    device = torch_xla.device()
    train_loader, valid_loader = build_loaders()

    model = timm.create_model(
        "vit_tiny_patch16_224",
        pretrained=False,
        img_size=IMG,
        patch_size=8,
        embed_dim=32,
        depth=2,
        num_heads=2,
        num_classes=CLASSES,
        drop_path_rate=0.1,
    ).to(device)
    ema = ModelEmaV2(model, decay=0.9)
    optimizer = create_optimizer_v2(model, opt="momentum", lr=0.05, weight_decay=1e-4)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=EPOCHS * len(train_loader), lr_min=5e-3,
        warmup_t=5, warmup_lr_init=5e-3, t_in_epochs=False)
    mixup_fn = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, prob=0.9, switch_prob=0.6,
                     mode="batch", label_smoothing=0.1, num_classes=CLASSES)
    criterion = SoftTargetCrossEntropy()

    for epoch in range(EPOCHS):
        train_one_epoch(epoch, model, train_loader, optimizer, criterion, scheduler, mixup_fn, ema, device)
        print(f"epoch {epoch}  ema top1 {validate(ema.module, valid_loader, device):.2f}")


if __name__ == "__main__":
    main()
