"""Lesion screening: timm backbone, timm optimiser, scheduler and EMA, torchmetrics validation."""
import argparse

import timm
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torchmetrics
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import BinaryAccuracy, BinaryAUROC


def lesion_tiles(n, size, seed):
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    y = (torch.rand(n, generator=g) < 0.35).long()
    x = 0.6 + 0.1 * torch.randn(n, 3, size, size, generator=g)
    centre = size * (0.3 + 0.4 * torch.rand(n, 2, generator=g))
    radius = size * (0.08 + 0.1 * torch.rand(n, generator=g)) * (1 + 0.6 * y)
    dist = ((yy - centre[:, :1, None]) ** 2 + (xx - centre[:, 1:, None]) ** 2).sqrt()
    spot = torch.sigmoid(radius[:, None, None] - dist)
    x -= 0.35 * spot[:, None] * torch.tensor([0.4, 0.8, 1.0])[None, :, None, None]
    return TensorDataset(x, y)


def build_model(size):
    return timm.create_model(
        "vit_tiny_patch16_224",
        pretrained=False,
        img_size=size,
        patch_size=8,
        embed_dim=32,
        depth=2,
        num_heads=4,
        num_classes=1,
        drop_path_rate=0.1,
    )


class Validator:
    def __init__(self, loader, device):
        self.loader = loader
        self.device = device
        self.metrics = torchmetrics.MetricCollection({
            "acc": BinaryAccuracy(),
            "auroc": BinaryAUROC(),
        }).to(device)
        self.loss_fn = nn.BCEWithLogitsLoss()

    @torch.no_grad()
    def run(self, model):
        model.eval()
        loss = torch.zeros((), device=self.device)
        for x, y in self.loader:
            x, y = x.to(self.device), y.to(self.device)
            logits = model(x).squeeze(1)
            loss += self.loss_fn(logits, y.float())
            self.metrics.update(logits.sigmoid(), y)
            torch_xla.sync()
        scores = {k: v.item() for k, v in self.metrics.compute().items()}
        scores["loss"] = loss.item() / len(self.loader)
        return scores


def train_one_epoch(model, ema, loader, loss_fn, optimizer, scheduler, epoch, device):
    model.train()
    meter = AverageMeter()
    updates = epoch * len(loader)
    epoch_loss = torch.zeros((), device=device)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = loss_fn(model(x).squeeze(1), y.float())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        xm.optimizer_step(optimizer)
        ema.update(model)
        epoch_loss += loss.detach()
        updates += 1
        scheduler.step_update(updates)
        torch_xla.sync()
    meter.update(epoch_loss.item() / len(loader), len(loader))
    return meter.avg


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--img-size", type=int, default=32)
    ap.add_argument("--epochs", type=int, default=6)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()

    torch.manual_seed(23)
    xm.set_rng_state(23)
    device = torch_xla.device()

    train = DataLoader(lesion_tiles(128, args.img_size, 1), args.batch_size, shuffle=True, drop_last=True)
    val = DataLoader(lesion_tiles(48, args.img_size, 2), args.batch_size)

    model = build_model(args.img_size).to(device)
    ema = ModelEmaV2(model, decay=0.9)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=args.lr, weight_decay=0.05)
    total = args.epochs * len(train)
    scheduler = CosineLRScheduler(optimizer, t_initial=total, lr_min=1e-5, warmup_t=8,
                                  warmup_lr_init=1e-4, t_in_epochs=False)
    validator = Validator(val, device)

    best = 0.0
    for epoch in range(args.epochs):
        train_loss = train_one_epoch(model, ema, train, nn.BCEWithLogitsLoss(), optimizer,
                                     scheduler, epoch, device)
        scores = validator.run(ema.module)
        best = max(best, scores["auroc"])
        print(f"epoch {epoch}: train {train_loss:.4f} val {scores['loss']:.4f} "
              f"acc {scores['acc']:.3f} auroc {scores['auroc']:.3f} best {best:.3f}")


if __name__ == "__main__":
    main()
