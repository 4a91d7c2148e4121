"""Image classification with a small timm ResNet and mixup/cutmix."""
import argparse

import numpy as np
import torch
import timm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter
from torch.utils.data import DataLoader, Dataset

import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


class Stripes(Dataset):
    def __init__(self, n, size, classes, seed):
        self.n, self.size, self.classes, self.seed = n, size, classes, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 100003 + i)
        label = int(rng.integers(self.classes))
        angle = np.pi * label / self.classes
        yy, xx = np.mgrid[:self.size, :self.size] / self.size
        wave = np.sin(12 * (np.cos(angle) * xx + np.sin(angle) * yy) + rng.uniform(0, 6))
        img = wave[None].repeat(3, 0) + rng.normal(0, 0.3, (3, self.size, self.size))
        return torch.from_numpy(img.astype(np.float32)), label


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--num-classes", type=int, default=5)
    p.add_argument("--img-size", type=int, default=16)
    p.add_argument("--mixup", type=float, default=0.2)
    p.add_argument("--cutmix", type=float, default=1.0)
    p.add_argument("--mixup-switch-prob", type=float, default=0.5)
    p.add_argument("--smoothing", type=float, default=0.1)
    p.add_argument("--lr", type=float, default=0.02)
    return p.parse_args()


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, mixup_fn, meter):
    model.train()
    for batch_idx, (images, target) in enumerate(loader):
        if mixup_fn is not None:
            images, target = mixup_fn(images, target)
        output = model(images)
        loss = loss_fn(output, target)
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        if batch_idx % 4 == 3:
            xm.add_step_closure(
                lambda l, n: meter.update(l.item(), n), args=(loss.detach(), images.size(0)))


def validate(model, loader, device):
    model.eval()
    correct = torch.zeros((), device=device)
    seen = 0
    with torch.no_grad():
        for images, target in loader:
            correct += (model(images).argmax(1) == target).sum()
            seen += target.size(0)
    return correct.item() / seen


def main():
    args = get_args()
    np.random.seed(0)
    torch.manual_seed(0)
    device = torch_xla.device()

    train_loader = DataLoader(Stripes(80, args.img_size, args.num_classes, 1),
                              batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(Stripes(32, args.img_size, args.num_classes, 2),
                            batch_size=args.batch_size)
    train_device_loader = pl.MpDeviceLoader(train_loader, device)
    val_device_loader = pl.MpDeviceLoader(val_loader, device)

    model = timm.models.resnet.ResNet(
        timm.models.resnet.BasicBlock, layers=(1, 1, 1, 1), channels=(4, 8, 8, 8),
        stem_width=8, num_classes=args.num_classes).to(device)
    optimizer = create_optimizer_v2(model, opt="momentum", lr=args.lr, weight_decay=1e-4)
    scheduler = CosineLRScheduler(optimizer, t_initial=args.epochs, lr_min=1e-4)
    loss_fn = SoftTargetCrossEntropy()
    mixup_fn = Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix,
        switch_prob=args.mixup_switch_prob, mode="batch",
        label_smoothing=args.smoothing, num_classes=args.num_classes)

    meter = AverageMeter()
    for epoch in range(args.epochs):
        train_one_epoch(epoch, model, train_device_loader, optimizer, loss_fn, mixup_fn, meter)
        scheduler.step(epoch + 1)
        acc = validate(model, val_device_loader, device)
        xm.master_print(f"epoch {epoch} loss {meter.avg:.4f} val acc {acc:.3f}")


if __name__ == "__main__":
    main()
