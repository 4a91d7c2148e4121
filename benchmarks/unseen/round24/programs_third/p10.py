"""Lesion / no lesion on tiny synthetic scans: timm backbone, timm EMA and schedule, torchmetrics for monitoring."""
import argparse

import numpy as np
import timm
import torch
import torch.nn.functional as F
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV2
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import BinaryAccuracy, BinaryAUROC

import torch_xla
import torch_xla.distributed.parallel_loader as pl


def scans(n, size, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, (n, 3, size, size)).astype(np.float32)
    y = (rng.random(n) < 0.4).astype(np.float32)
    for i in np.flatnonzero(y):
        r, c = rng.integers(2, size - 8, 2)
        x[i, :, r:r + 6, c:c + 6] += 1.5
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--model", default="test_byobnet")
    p.add_argument("--size", type=int, default=32)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--log-interval", type=int, default=4)
    return p.parse_args()


class Monitor:
    """Scores of the running epoch; printed every few batches and at the end of validation."""

    def __init__(self, device, prefix):
        self.prefix = prefix
        self.loss = MeanMetric().to(device)
        self.scores = MetricCollection({
            "acc": BinaryAccuracy(validate_args=False),
            "auroc": BinaryAUROC(validate_args=False),
        }).to(device)

    def update(self, loss, logits, target):
        self.loss.update(loss)
        self.scores.update(logits.sigmoid(), target.int())

    def line(self):
        vals = {k: v.item() for k, v in self.scores.compute().items()}
        body = " ".join(f"{k} {v:.3f}" for k, v in vals.items())
        return f"{self.prefix} loss {self.loss.compute().item():.4f} {body}"

    def reset(self):
        self.loss.reset()
        self.scores.reset()


def train_one_epoch(epoch, model, ema, loader, opt, sched, monitor, args):
    model.train()
    monitor.reset()
    steps = len(loader)
    for i, (x, y) in enumerate(loader):
        logits = model(x).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update(model)
        sched.step_update(epoch * steps + i + 1)
        monitor.update(loss.detach(), logits.detach(), y)
        torch_xla.sync()
        if (i + 1) % args.log_interval == 0:
            print(f"epoch {epoch} [{i + 1}/{steps}] {monitor.line()}", flush=True)


@torch.no_grad()
def validate(model, loader, monitor):
    model.eval()
    monitor.reset()
    for x, y in loader:
        logits = model(x).squeeze(1)
        monitor.update(F.binary_cross_entropy_with_logits(logits, y), logits, y)
        torch_xla.sync()
    print(monitor.line(), flush=True)


def main():
    args = get_args()
    torch.manual_seed(0)
    device = torch_xla.device()
    train = DataLoader(scans(256, args.size, 0), args.batch_size, shuffle=True, drop_last=True)
    val = DataLoader(scans(64, args.size, 1), args.batch_size, drop_last=True)
    train, val = pl.MpDeviceLoader(train, device), pl.MpDeviceLoader(val, device)

    model = timm.create_model(args.model, pretrained=False, num_classes=1).to(device)
    ema = ModelEmaV2(model, decay=0.95)
    opt = create_optimizer_v2(model, opt="adamw", lr=args.lr, weight_decay=0.02)
    sched = CosineLRScheduler(opt, t_initial=args.epochs * len(train), warmup_t=4, warmup_lr_init=1e-4,
                              t_in_epochs=False)
    tm, vm = Monitor(device, "train"), Monitor(device, "valid")
    for epoch in range(args.epochs):
        train_one_epoch(epoch, model, ema, train, opt, sched, tm, args)
        validate(ema.module, val, vm)


if __name__ == "__main__":
    main()
