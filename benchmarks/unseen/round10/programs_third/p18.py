"""Training a small vision transformer with the timm recipe (mixup / cutmix, layer decay, cosine, EMA)."""
import argparse
import time

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2, accuracy
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--img-size", type=int, default=32)
parser.add_argument("--num-classes", type=int, default=6)
parser.add_argument("--lr", type=float, default=2e-3)
parser.add_argument("--weight-decay", type=float, default=0.05)
parser.add_argument("--mixup", type=float, default=0.4)
parser.add_argument("--cutmix", type=float, default=1.0)
parser.add_argument("--mixup-switch-prob", type=float, default=0.5)
parser.add_argument("--smoothing", type=float, default=0.1)
parser.add_argument("--model-ema-decay", type=float, default=0.95)
parser.add_argument("--log-interval", type=int, default=4)
parser.add_argument("--seed", type=int, default=42)


class Stripes(Dataset):
    """Oriented gratings; the class is the orientation."""

    def __init__(self, n, size, classes, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, classes, n)
        yy, xx = np.mgrid[0:size, 0:size] / size
        ang = self.labels / classes * np.pi
        phase = rng.uniform(0, 6.28, n)
        wave = np.sin(20 * (np.cos(ang)[:, None, None] * xx + np.sin(ang)[:, None, None] * yy) + phase[:, None, None])
        self.images = (wave[:, None] + 0.3 * rng.normal(size=(n, 3, size, size))).astype("float32")

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i], int(self.labels[i])


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, mixup_fn, scheduler, ema, device, args):
    model.train()
    losses = AverageMeter()
    updates = epoch * len(loader)
    for i, (input, target) in enumerate(loader):
        input, target = input.to(device), target.to(device)
        input, target = mixup_fn(input, target)
        optimizer.zero_grad()
        loss = loss_fn(model(input), target)
        loss.backward()
        optimizer.step()
        updates += 1
        ema.update(model)
        scheduler.step_update(num_updates=updates)
        torch_xla.sync()
        if i % args.log_interval == args.log_interval - 1:
            losses.update(loss.item(), len(input))
            lr = max(g["lr"] for g in optimizer.param_groups)
            print(f"Train: {epoch} [{i + 1}/{len(loader)}] Loss: {losses.avg:.3f} LR: {lr:.2e}")


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    top1 = AverageMeter()
    for input, target in loader:
        output = model(input.to(device))
        torch_xla.sync()
        top1.update(accuracy(output.cpu(), target)[0].item(), len(input))
    return top1.avg


def main():
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    device = xm.xla_device()
    model = VisionTransformer(img_size=args.img_size, patch_size=8, embed_dim=48, depth=2, num_heads=3,
                              num_classes=args.num_classes).to(device)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=args.lr, weight_decay=args.weight_decay, foreach=False)
    ema = ModelEmaV2(model, decay=args.model_ema_decay)
    mixup_fn = Mixup(mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, switch_prob=args.mixup_switch_prob,
                     label_smoothing=args.smoothing, num_classes=args.num_classes)
    train_set = Stripes(96, args.img_size, args.num_classes, 0)
    loader_train = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    loader_eval = DataLoader(Stripes(32, args.img_size, args.num_classes, 1), batch_size=args.batch_size)
    total = args.epochs * len(loader_train)
    scheduler = CosineLRScheduler(optimizer, t_initial=total, lr_min=1e-5, warmup_t=4, warmup_lr_init=1e-4,
                                  t_in_epochs=False)
    start = time.time()
    for epoch in range(args.epochs):
        train_one_epoch(epoch, model, loader_train, optimizer, SoftTargetCrossEntropy(), mixup_fn, scheduler, ema,
                        device, args)
        print(f"Eval: {epoch} Acc@1 {validate(ema.module, loader_eval, device):.2f}")
    print(f"done in {time.time() - start:.0f}s")


if __name__ == "__main__":
    main()
