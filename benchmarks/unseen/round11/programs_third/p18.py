"""Small ViT on synthetic textures with the usual timm recipe."""
import argparse

import numpy as np
import torch
import torch_xla
import timm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--steps-per-epoch", type=int, default=9)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--num-classes", type=int, default=6)
    p.add_argument("--img-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--mixup", type=float, default=0.2)
    p.add_argument("--cutmix", type=float, default=1.0)
    p.add_argument("--switch-prob", type=float, default=0.7)
    p.add_argument("--smoothing", type=float, default=0.1)
    p.add_argument("--seed", type=int, default=8)
    return p.parse_args()


class Textures(torch.utils.data.Dataset):
    def __init__(self, n, size, classes):
        self.n, self.size, self.classes = n, size, classes

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        label = i % self.classes
        axis = torch.linspace(0, 6.28, self.size)
        wave = torch.sin(axis[None] * (label + 1)) + torch.cos(axis[:, None] * (label % 3 + 1))
        return wave[None] + 0.3 * torch.randn(3, self.size, self.size, generator=g), label


def build_model(args):
    return timm.create_model(
        "vit_tiny_patch16_224", pretrained=False, img_size=args.img_size, patch_size=8,
        embed_dim=32, depth=2, num_heads=2, num_classes=args.num_classes, drop_path_rate=0.1)


def train_one_epoch(epoch, model, ema, loader, mixup_fn, loss_fn, optimizer, scheduler, device, log_every=6):
    model.train()
    meter = AverageMeter()
    updates = epoch * len(loader)
    for i, (image, target) in enumerate(loader):
        image, target = image.to(device), target.to(device)
        image, target = mixup_fn(image, target)
        loss = loss_fn(model(image), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model)
        updates += 1
        scheduler.step_update(num_updates=updates)
        torch_xla.sync()
        if (i + 1) % log_every == 0:
            meter.update(loss.item(), image.size(0))
            print(f"epoch {epoch} [{i + 1}/{len(loader)}] loss {meter.avg:.4f} "
                  f"lr {optimizer.param_groups[0]['lr']:.2e}")


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    correct, seen = torch.zeros((), device=device), 0
    for image, target in loader:
        image, target = image.to(device), target.to(device)
        correct += (model(image).argmax(1) == target).float().sum()
        seen += target.shape[0]
        torch_xla.sync()
    return correct.item() / seen


def main():
    args = get_args()
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    device = torch_xla.device()
    model = build_model(args).to(device)
    ema = ModelEmaV2(model, decay=0.99)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=args.lr, weight_decay=0.05)
    n = args.batch_size * args.steps_per_epoch
    train_loader = torch.utils.data.DataLoader(
        Textures(n, args.img_size, args.num_classes), args.batch_size, shuffle=True, drop_last=True)
    val_loader = torch.utils.data.DataLoader(
        Textures(4 * args.batch_size, args.img_size, args.num_classes), args.batch_size)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=args.epochs * args.steps_per_epoch, lr_min=1e-5,
        warmup_t=4, warmup_lr_init=1e-5, t_in_epochs=False)
    mixup_fn = Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, prob=1.0, switch_prob=args.switch_prob,
        mode="batch", label_smoothing=args.smoothing, num_classes=args.num_classes)
    torch_xla.sync()
    for epoch in range(args.epochs):
        train_one_epoch(epoch, model, ema, train_loader, mixup_fn, SoftTargetCrossEntropy(),
                        optimizer, scheduler, device)
        print(f"epoch {epoch} ema accuracy {validate(ema.module, val_loader, device):.3f}")


if __name__ == "__main__":
    main()
