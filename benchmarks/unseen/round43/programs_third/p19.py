"""Land-cover scenes (6-band patches) with a small timm ViT.

Recipe: soft-target cross entropy, cutmix, cosine schedule with warmup,
layer-wise weight decay filter, averaged weights for the evaluation.
"""
import argparse

import numpy as np
import timm
import torch
import torch_xla
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2, dispatch_clip_grad, random_seed
from torch.utils.data import DataLoader, Dataset

BANDS = 6
SIZE = 32
CLASSES = 8


class Scenes(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        signature = np.random.default_rng(1234).normal(0, 1, (CLASSES, BANDS, 1, 1))
        self.y = rng.integers(0, CLASSES, n)
        yy, xx = np.mgrid[0:SIZE, 0:SIZE] / SIZE
        texture = np.stack([np.sin(2 * np.pi * (k + 1) * (xx + 0.5 * yy)) for k in range(CLASSES)])
        x = signature[self.y] + texture[self.y][:, None] + rng.normal(0, 0.8, (n, BANDS, SIZE, SIZE))
        self.x = x.astype(np.float32)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = torch.from_numpy(self.x[i])
        if torch.rand(()) < 0.5:
            x = x.flip(-1)
        return x, int(self.y[i])


def build(args):
    return timm.create_model(
        "vit_tiny_patch16_224", pretrained=False, img_size=SIZE, patch_size=8,
        in_chans=BANDS, num_classes=CLASSES, embed_dim=48, depth=2, num_heads=4,
        drop_path_rate=args.drop_path)


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, scheduler, mixup_fn,
                    model_ema, device, args):
    model.train()
    losses = AverageMeter()
    updates = epoch * len(loader)
    for i, (x, target) in enumerate(loader):
        x, target = x.to(device), target.to(device)
        if mixup_fn is not None:
            x, target = mixup_fn(x, target)

        optimizer.zero_grad()
        loss = loss_fn(model(x), target)
        loss.backward()
        dispatch_clip_grad(model.parameters(), args.clip_grad, mode="norm")
        optimizer.step()
        model_ema.update(model)
        torch_xla.sync()

        updates += 1
        scheduler.step_update(updates)
        if (i + 1) % args.log_every == 0:
            losses.update(loss.item(), x.size(0))
            lr = optimizer.param_groups[0]["lr"]
            print(f"epoch {epoch} [{i + 1:2d}/{len(loader)}] "
                  f"loss {losses.val:.4f} ({losses.avg:.4f}) lr {lr:.2e}")
    return losses.avg


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    right = torch.zeros((), device=device)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        right = right + (model(x).argmax(-1) == y).sum()
        torch_xla.sync()
    return right.item() / len(loader.dataset)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--batch-size", type=int, default=24)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--drop-path", type=float, default=0.1)
    ap.add_argument("--clip-grad", type=float, default=1.0)
    ap.add_argument("--cutmix", type=float, default=1.0)
    ap.add_argument("--smoothing", type=float, default=0.1)
    ap.add_argument("--log-every", type=int, default=5)
    args = ap.parse_args()

    random_seed(53)
    device = torch_xla.device()
    train = DataLoader(Scenes(240, seed=1), args.batch_size, shuffle=True, drop_last=True)
    valid = DataLoader(Scenes(96, seed=2), args.batch_size)

    model = build(args).to(device)
    model_ema = ModelEmaV2(model, decay=0.95)
    optimizer = create_optimizer_v2(model, opt="sgd", lr=args.lr, momentum=0.9,
                                    weight_decay=1e-3)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=args.epochs * len(train), lr_min=1e-4,
        warmup_t=5, warmup_lr_init=1e-3, t_in_epochs=False)
    mixup_fn = Mixup(mixup_alpha=0.0, cutmix_alpha=args.cutmix, prob=0.9,
                     label_smoothing=args.smoothing, num_classes=CLASSES)
    loss_fn = SoftTargetCrossEntropy()
    torch_xla.sync()

    for epoch in range(args.epochs):
        train_one_epoch(epoch, model, train, optimizer, loss_fn, scheduler, mixup_fn,
                        model_ema, device, args)
        acc = validate(model_ema.module, valid, device)
        print(f"epoch {epoch} accuracy of averaged weights {acc:.3f}")


if __name__ == "__main__":
    main()
