"""Fine-grained leaf classification with a small timm ViT, timm's Mixup and model EMA."""
import math

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter
from torch.utils.data import DataLoader, TensorDataset

import numpy as np

IMG = 32
CLASSES = 10
BATCH = 16
EPOCHS = 2


def leaves(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (n,), generator=g)
    axis = torch.linspace(-1, 1, IMG)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    lobes = (y + 2).float()[:, None, None]
    ang = torch.atan2(yy, xx)[None] + 2 * math.pi * torch.rand(n, 1, 1, generator=g)
    rad = (yy ** 2 + xx ** 2).sqrt()[None]
    shape = torch.sigmoid(20 * (0.55 + 0.2 * torch.cos(lobes * ang) - rad))
    tint = 0.3 + 0.7 * torch.rand(n, 3, 1, 1, generator=g)
    img = shape[:, None] * tint + 0.1 * torch.randn(n, 3, IMG, IMG, generator=g)
    return TensorDataset((img - 0.4) / 0.3, y)


def build_model():
    return VisionTransformer(
        img_size=IMG, patch_size=8, num_classes=CLASSES, embed_dim=32, depth=2,
        num_heads=2, mlp_ratio=2.0, drop_path_rate=0.05, class_token=False, global_pool="avg",
    )


def train_epoch(epoch, model, loader, mixup_fn, loss_fn, opt, sched, steps_per_epoch):
    model.train()
    updates = epoch * steps_per_epoch
    last = None
    for images, target in loader:
        images, target = mixup_fn(images, target)
        loss = loss_fn(model(images), target)
        opt.zero_grad()
        loss.backward()
        xm.optimizer_step(opt)
        updates += 1
        sched.step_update(num_updates=updates)
        last = loss.detach()
    return last.item()


@torch.no_grad()
def validate(model, loader):
    model.eval()
    top1 = AverageMeter()
    pending = []
    for images, target in loader:
        hit = (model(images).argmax(-1) == target).float().mean()
        xm.add_step_closure(lambda h, n: pending.append((h.item(), n)), args=(hit, images.size(0)))
    for value, n in pending:
        top1.update(value, n)
    return top1.avg


def main():
    torch.manual_seed(42)
    np.random.seed(42)
    device = torch_xla.device()
    train_set, valid_set = leaves(160, 0), leaves(32, 1)
    train = DataLoader(train_set, batch_size=BATCH, shuffle=True, drop_last=True)
    valid = DataLoader(valid_set, batch_size=BATCH)
    train_dev, valid_dev = pl.MpDeviceLoader(train, device), pl.MpDeviceLoader(valid, device)

    model = build_model().to(device)
    opt = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05, filter_bias_and_bn=True)
    sched = CosineLRScheduler(opt, t_initial=EPOCHS * len(train), lr_min=1e-5, warmup_t=4,
                              warmup_lr_init=1e-5, t_in_epochs=False)
    mixup_fn = Mixup(mixup_alpha=0.2, cutmix_alpha=1.0, prob=1.0, switch_prob=0.5, mode="batch",
                     label_smoothing=0.1, num_classes=CLASSES)
    loss_fn = SoftTargetCrossEntropy()

    for epoch in range(EPOCHS):
        loss = train_epoch(epoch, model, train_dev, mixup_fn, loss_fn, opt, sched, len(train))
        acc = validate(model, valid_dev)
        print(f"epoch {epoch}  loss {loss:.4f}  top-1 {acc:.3f}  lr {opt.param_groups[0]['lr']:.2e}")


if __name__ == "__main__":
    main()
