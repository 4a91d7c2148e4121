"""Pollen grain classification from synthetic microscope tiles with a small vision transformer from timm.

The recipe follows the usual image-classification one: soft targets, warm-up and cosine decay per update, clipped gradients.
"""
import argparse

import numpy as np
import timm
import timm.data
import timm.loss
import timm.optim
import timm.scheduler
import timm.utils
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, Dataset

TAXA = ["Betula", "Alnus", "Corylus", "Poaceae", "Pinus", "Artemisia"]


class PollenTiles(Dataset):
    """Round grains with a taxon-dependent number of apertures and wall thickness."""

    def __init__(self, n, size, seed):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[0:size, 0:size].astype(np.float32) / size - 0.5
        self.labels = rng.integers(0, len(TAXA), n)
        self.tiles = np.empty((n, 3, size, size), dtype=np.float32)
        for i, taxon in enumerate(self.labels):
            cx, cy = rng.normal(0.0, 0.05, 2)
            r = np.hypot(xx - cx, yy - cy)
            phi = np.arctan2(yy - cy, xx - cx) + rng.random() * np.pi
            radius = 0.25 + 0.02 * taxon + 0.02 * np.cos((taxon + 1) * phi)
            wall = np.exp(-((r - radius) / 0.03) ** 2)
            body = 1.0 / (1.0 + np.exp((r - radius) / 0.02))
            stain = np.array([0.8, 0.3 + 0.05 * taxon, 0.5])[:, None, None]
            self.tiles[i] = stain * body + 0.5 * wall + 0.05 * rng.standard_normal((3, size, size))

    def __len__(self):
        return len(self.tiles)

    def __getitem__(self, i):
        return torch.from_numpy(self.tiles[i]), int(self.labels[i])


def build_model(size):
    return timm.create_model(
        "vit_tiny_patch16_224", pretrained=False, num_classes=len(TAXA), img_size=size, patch_size=8,
        embed_dim=24, depth=1, num_heads=2, drop_path_rate=0.05, global_pool="avg", class_token=False,
    )


def parse_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", type=int, default=48)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--steps", type=int, default=18)
    ap.add_argument("--lr", type=float, default=5e-2)
    ap.add_argument("--mixup", type=float, default=0.2)
    ap.add_argument("--cutmix", type=float, default=1.0)
    ap.add_argument("--smoothing", type=float, default=0.1)
    ap.add_argument("--seed", type=int, default=3)
    return ap.parse_args()


def train(args):
    timm.utils.random_seed(args.seed)
    device = torch_xla.device()
    data = PollenTiles(args.batch_size * 12, args.size, args.seed)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, drop_last=True)

    model = build_model(args.size).to(device)
    optimizer = timm.optim.create_optimizer_v2(model, opt="momentum", lr=args.lr, weight_decay=1e-4)
    scheduler = timm.scheduler.CosineLRScheduler(
        optimizer, t_initial=2 * args.steps, warmup_t=3, warmup_lr_init=1e-3, t_in_epochs=False,
    )
    mix = timm.data.Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, switch_prob=0.7,
        label_smoothing=args.smoothing, num_classes=len(TAXA),
    )
    criterion = timm.loss.SoftTargetCrossEntropy()

    losses = timm.utils.AverageMeter()
    update = 0
    model.train()
    while update < args.steps:
        for tiles, taxa in loader:
            tiles, taxa = tiles.to(device), taxa.to(device)
            tiles, target = mix(tiles, taxa)
            loss = criterion(model(tiles), target)

            optimizer.zero_grad()
            loss.backward()
            timm.utils.dispatch_clip_grad(model.parameters(), value=1.0)
            xm.optimizer_step(optimizer)
            xm.mark_step()

            update += 1
            scheduler.step_update(update)
            if update % 6 == 0:
                losses.update(loss.item(), len(tiles))
                print(f"update {update:3d}  loss {losses.val:.4f} ({losses.avg:.4f})  lr {optimizer.param_groups[0]['lr']:.2e}")
            if update >= args.steps:
                break
    return model


@torch.no_grad()
def evaluate(model, args):
    device = torch_xla.device()
    loader = DataLoader(PollenTiles(args.batch_size * 3, args.size, args.seed + 99), batch_size=args.batch_size)
    model.eval()
    correct = total = 0
    for tiles, taxa in loader:
        hit = model(tiles.to(device)).argmax(1).eq(taxa.to(device)).sum()
        xm.mark_step()
        correct += hit.item()
        total += len(taxa)
    print(f"held-out accuracy {correct / total:.3f}")


if __name__ == "__main__":
    arguments = parse_args()
    evaluate(train(arguments), arguments)
