"""Cereal kernel grading with a small vision transformer (timm recipe)."""
import argparse
import logging

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

_logger = logging.getLogger("train")
GRADES = 6


class KernelImages(torch.utils.data.Dataset):
    """Procedural kernels: an ellipse with grade-dependent aspect and tint."""

    def __init__(self, count, size, seed):
        rng = np.random.default_rng(seed)
        self.size = size
        self.labels = rng.integers(0, GRADES, size=count)
        self.angle = rng.uniform(0, np.pi, size=count)
        self.shift = rng.normal(0, 0.1, size=(count, 2))
        self.noise_seed = rng.integers(0, 2 ** 31, size=count)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        label = int(self.labels[i])
        axis = np.linspace(-1, 1, self.size)
        yy, xx = np.meshgrid(axis - self.shift[i, 0], axis - self.shift[i, 1], indexing="ij")
        c, s = np.cos(self.angle[i]), np.sin(self.angle[i])
        u, v = c * xx + s * yy, -s * xx + c * yy
        body = ((u / 0.75) ** 2 + (v / (0.25 + 0.07 * label)) ** 2 < 1).astype(np.float32)
        tint = np.array([0.9, 0.9 - 0.1 * label, 0.3 + 0.08 * label], dtype=np.float32)
        img = tint[:, None, None] * body
        rng = np.random.default_rng(self.noise_seed[i])
        img = img + 0.1 * rng.standard_normal(img.shape).astype(np.float32)
        return torch.from_numpy((img - 0.4) / 0.35).float(), label


def build_model():
    return timm.create_model(
        "vit_tiny_patch16_224", pretrained=False, img_size=32, patch_size=8,
        embed_dim=24, depth=1, num_heads=2, num_classes=GRADES)


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, device, scheduler,
                    mixup_fn=None, model_ema=None):
    model.train()
    losses = []
    updates = epoch * len(loader)
    for images, target in loader:
        images = images.to(device)
        target = target.to(device)
        if mixup_fn is not None:
            images, target = mixup_fn(images, target)
        loss = loss_fn(model(images), target)

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if model_ema is not None:
            model_ema.update(model)
        torch_xla.sync()

        updates += 1
        scheduler.step_update(updates)
        losses.append(loss.detach())
    return torch.stack(losses).mean().item()


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    top1 = AverageMeter()
    for images, target in loader:
        logits = model(images.to(device))
        torch_xla.sync()
        acc1, = accuracy(logits.cpu(), target, topk=(1,))
        top1.update(acc1.item(), images.size(0))
    return top1.avg


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--mixup", type=float, default=0.2)
    parser.add_argument("--cutmix", type=float, default=1.0)
    parser.add_argument("--smoothing", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s", force=True)

    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = xm.xla_device()

    loader_train = torch.utils.data.DataLoader(
        KernelImages(16 * 8, 32, seed=1), batch_size=args.batch_size,
        shuffle=True, drop_last=True)
    loader_eval = torch.utils.data.DataLoader(
        KernelImages(16 * 2, 32, seed=2), batch_size=args.batch_size)

    model = build_model().to(device)
    model_ema = ModelEmaV2(model, decay=0.9)
    optimizer = create_optimizer_v2(model, opt="momentum", lr=args.lr, weight_decay=1e-4)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=args.epochs * len(loader_train), warmup_t=4,
        warmup_lr_init=1e-3, t_in_epochs=False)
    mixup_fn = Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, prob=1.0, switch_prob=0.7,
        mode="batch", label_smoothing=args.smoothing, num_classes=GRADES)
    loss_fn = SoftTargetCrossEntropy()

    for epoch in range(args.epochs):
        loss = train_one_epoch(epoch, model, loader_train, optimizer, loss_fn, device,
                               scheduler, mixup_fn=mixup_fn, model_ema=model_ema)
        top1 = validate(model_ema.module, loader_eval, device)
        _logger.info("epoch %d  loss %.4f  ema top1 %.1f", epoch, loss, top1)


if __name__ == "__main__":
    main()
