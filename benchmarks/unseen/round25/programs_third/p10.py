"""Fine-tune a small timm ViT on procedurally drawn shapes with mixup/cutmix, label smoothing and a cosine schedule."""
import argparse
import logging

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from torch.utils.data import DataLoader, Dataset

_logger = logging.getLogger("train")

parser = argparse.ArgumentParser()
parser.add_argument("--img-size", type=int, default=32)
parser.add_argument("--num-classes", type=int, default=5)
parser.add_argument("-b", "--batch-size", type=int, default=8)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--weight-decay", type=float, default=0.05)
parser.add_argument("--mixup", type=float, default=0.2)
parser.add_argument("--cutmix", type=float, default=1.0)
parser.add_argument("--mixup-prob", type=float, default=1.0)
parser.add_argument("--mixup-switch-prob", type=float, default=0.5)
parser.add_argument("--smoothing", type=float, default=0.1)
parser.add_argument("--seed", type=int, default=42)


class Shapes(Dataset):
    def __init__(self, n, size, classes, seed):
        self.n, self.size, self.classes, self.seed = n, size, classes, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.RandomState(self.seed * 9973 + i)
        label = i % self.classes
        yy, xx = np.mgrid[0:self.size, 0:self.size]
        cy, cx = rng.uniform(10, self.size - 10, 2)
        r = rng.uniform(4, 9)
        dist = [
            np.hypot(yy - cy, xx - cx),
            np.maximum(abs(yy - cy), abs(xx - cx)),
            abs(yy - cy) + abs(xx - cx),
            np.abs(np.hypot(yy - cy, xx - cx) - r / 2) + r / 2,
            np.minimum(abs(yy - cy), abs(xx - cx)) + r * 0.7,
        ][label]
        img = np.repeat((dist < r)[None].astype(np.float32), 3, 0)
        img += 0.1 * rng.randn(*img.shape).astype(np.float32)
        return torch.from_numpy(img), label


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, mixup_fn, scheduler, device):
    model.train()
    updates = epoch * len(loader)
    for batch_idx, (images, target) in enumerate(loader):
        images, target = images.to(device), target.to(device)
        images, target = mixup_fn(images, target)
        optimizer.zero_grad()
        loss = loss_fn(model(images), target)
        loss.backward()
        optimizer.step()
        xm.mark_step()
        updates += 1
        scheduler.step_update(updates)
        if batch_idx % 7 == 6:
            _logger.info("Train: %d [%d/%d] loss %.4f", epoch, batch_idx + 1, len(loader), loss.item())


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    top1 = 0
    for images, target in loader:
        pred = model(images.to(device)).argmax(1).cpu()
        top1 += (pred == target).sum().item()
    return top1 / len(loader.dataset)


def main():
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    device = torch_xla.device()

    model = VisionTransformer(img_size=args.img_size, patch_size=8, embed_dim=32, depth=1, num_heads=2,
                              num_classes=args.num_classes)
    model.to(device)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=args.lr, weight_decay=args.weight_decay)

    train_loader = DataLoader(Shapes(56, args.img_size, args.num_classes, 1), batch_size=args.batch_size,
                              shuffle=True, drop_last=True)
    val_loader = DataLoader(Shapes(24, args.img_size, args.num_classes, 2), batch_size=args.batch_size)
    scheduler = CosineLRScheduler(optimizer, t_initial=args.epochs * len(train_loader), warmup_t=5,
                                  warmup_lr_init=1e-5, t_in_epochs=False)
    mixup_fn = Mixup(mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, prob=args.mixup_prob,
                     switch_prob=args.mixup_switch_prob, mode="batch", label_smoothing=args.smoothing,
                     num_classes=args.num_classes)
    loss_fn = SoftTargetCrossEntropy()
    for epoch in range(args.epochs):
        train_one_epoch(epoch, model, train_loader, optimizer, loss_fn, mixup_fn, scheduler, device)
        _logger.info("Epoch %d top1 %.3f", epoch, validate(model, val_loader, device))


if __name__ == "__main__":
    main()
