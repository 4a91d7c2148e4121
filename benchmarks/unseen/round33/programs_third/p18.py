"""Train a tiny timm MLP-Mixer on synthetic textures with Mixup / CutMix."""
import argparse
import math

import timm
import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, accuracy, random_seed
from torch.utils.data import DataLoader, Dataset


class Textures(Dataset):
    """Oriented gratings: the class is the orientation."""

    def __init__(self, n, size, classes, seed):
        g = torch.Generator().manual_seed(seed)
        self.label = torch.randint(classes, (n,), generator=g)
        self.freq = 0.4 + 0.4 * torch.rand(n, generator=g)
        self.phase = 6.28 * torch.rand(n, generator=g)
        self.noise = torch.randn(n, 3, size, size, generator=g) * 0.3
        self.size, self.classes = size, classes

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        angle = math.pi * self.label[i] / self.classes
        yy, xx = torch.meshgrid(torch.arange(self.size), torch.arange(self.size), indexing="ij")
        wave = torch.sin(self.freq[i] * (xx * torch.cos(angle) + yy * torch.sin(angle)) + self.phase[i])
        return wave.unsqueeze(0) + self.noise[i], int(self.label[i])


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--classes", type=int, default=4)
    p.add_argument("--img-size", type=int, default=32)
    p.add_argument("--opt", default="adamw")
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--mixup", type=float, default=0.2)
    p.add_argument("--cutmix", type=float, default=1.0)
    p.add_argument("--mixup-switch-prob", type=float, default=0.5)
    p.add_argument("--smoothing", type=float, default=0.1)
    p.add_argument("--seed", type=int, default=42)
    return p.parse_args()


def build(args):
    return timm.models.mlp_mixer.MlpMixer(
        num_classes=args.classes, img_size=args.img_size, patch_size=8,
        num_blocks=1, embed_dim=32, drop_rate=0.1)


def train_one_epoch(epoch, model, loader, optimizer, scheduler, loss_fn, mixup_fn, updates):
    model.train()
    losses = []
    for image, target in loader:
        if mixup_fn is not None:
            image, target = mixup_fn(image, target)
        output = model(image)
        loss = loss_fn(output, target)
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        updates += 1
        scheduler.step_update(num_updates=updates)
        losses.append(loss.detach())
    torch_xla.sync()
    values = [l.item() for l in losses]
    print(f"epoch {epoch} train loss {sum(values) / len(values):.4f} lr {optimizer.param_groups[0]['lr']:.4f}")
    return updates


@torch.no_grad()
def validate(model, loader):
    model.eval()
    top1 = AverageMeter()
    for image, target in loader:
        output = model(image)
        acc1, = accuracy(output, target, topk=(1,))
        top1.update(acc1.item(), image.size(0))
    print(f"val top1 {top1.avg:.1f}")
    return top1.avg


def main():
    args = parse()
    random_seed(args.seed)
    device = torch_xla.device()

    train = Textures(72, args.img_size, args.classes, seed=1)
    val = Textures(32, args.img_size, args.classes, seed=2)
    train_loader = DataLoader(train, args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val, args.batch_size, drop_last=True)
    steps_per_epoch = len(train_loader)
    train_loader = pl.MpDeviceLoader(train_loader, device)
    val_loader = pl.MpDeviceLoader(val_loader, device)

    model = build(args).to(device)
    optimizer = create_optimizer_v2(model, opt=args.opt, lr=args.lr, weight_decay=0.02)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=args.epochs * steps_per_epoch, lr_min=1e-4,
        warmup_t=5, warmup_lr_init=1e-3, t_in_epochs=False)
    mixup_fn = Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, switch_prob=args.mixup_switch_prob,
        mode="batch", label_smoothing=args.smoothing, num_classes=args.classes)
    loss_fn = SoftTargetCrossEntropy()

    updates, best = 0, 0.0
    for epoch in range(args.epochs):
        updates = train_one_epoch(
            epoch, model, train_loader, optimizer, scheduler, loss_fn, mixup_fn, updates)
        best = max(best, validate(model, val_loader))
    print(f"best top1 {best:.1f}")


if __name__ == "__main__":
    main()
