"""Multi-label defect detection on wafer maps: timm ViT, timm optimizer/scheduler/EMA,
torchmetrics for the running scores."""
import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.loss import AsymmetricLossMultiLabel
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MetricCollection
from torchmetrics.classification import (
    MultilabelAccuracy,
    MultilabelAUROC,
    MultilabelF1Score,
)

IMG = 16
LABELS = 3
BATCH = 16
EPOCHS = 1
LOG_INTERVAL = 4


class WaferMaps(Dataset):
    """Ring, scratch and edge-cluster defects drawn on a disc."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[:IMG, :IMG] - (IMG - 1) / 2
        r = np.hypot(yy, xx)
        disc = (r < IMG / 2).astype(np.float32)
        self.x, self.y = [], []
        for _ in range(n):
            y = (rng.random(LABELS) < 0.4).astype(np.int64)
            img = rng.normal(0, 0.4, (IMG, IMG))
            if y[0]:
                img += np.exp(-((r - rng.uniform(3, 5)) ** 2))
            if y[1]:
                a = rng.uniform(0, np.pi)
                img += 1.2 * (np.abs(np.cos(a) * yy + np.sin(a) * xx) < 0.8)
            if y[2]:
                a = rng.uniform(0, 2 * np.pi)
                d = np.hypot(yy - 6 * np.sin(a), xx - 6 * np.cos(a))
                img += 1.5 * np.exp(-(d / 2) ** 2)
            self.x.append(torch.tensor(img * disc, dtype=torch.float32)[None])
            self.y.append(torch.tensor(y))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def build_model():
    return VisionTransformer(
        img_size=IMG, patch_size=4, in_chans=1, num_classes=LABELS,
        embed_dim=32, depth=2, num_heads=4, mlp_ratio=2.0, global_pool="avg")


def build_metrics(prefix):
    return MetricCollection({
        "acc": MultilabelAccuracy(LABELS, validate_args=False),
        "f1": MultilabelF1Score(LABELS, validate_args=False),
        "auroc": MultilabelAUROC(LABELS, validate_args=False),
    }, prefix=prefix)


def train_one_epoch(epoch, model, loader, criterion, optimizer, scheduler, ema, metrics, device):
    model.train()
    metrics.reset()
    losses = AverageMeter()
    updates = epoch * len(loader)
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        logits = model(x)
        loss = criterion(logits, y.float())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        ema.update(model)
        metrics.update(logits.detach().sigmoid(), y)
        torch_xla.sync()
        updates += 1
        scheduler.step_update(num_updates=updates)
        if (i + 1) % LOG_INTERVAL == 0:
            losses.update(loss.item(), x.size(0))
            scores = {k: v.item() for k, v in metrics.compute().items()}
            line = " ".join(f"{k} {v:.3f}" for k, v in scores.items())
            print(f"epoch {epoch} [{i + 1:3d}/{len(loader)}] loss {losses.avg:.4f} {line}")
    return losses.avg


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    correct = torch.zeros((), device=device)
    count = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        pred = model(x) > 0
        correct += (pred == y.bool()).float().mean(1).sum()
        count += len(y)
        torch_xla.sync()
    return correct.item() / count


def main():
    torch.manual_seed(0)
    device = xm.xla_device()
    train_loader = DataLoader(WaferMaps(640, seed=1), BATCH, shuffle=True, drop_last=True)
    val_loader = DataLoader(WaferMaps(64, seed=2), BATCH)

    model = build_model().to(device)
    ema = ModelEmaV2(model, decay=0.9)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=2e-3, weight_decay=0.05)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=EPOCHS * len(train_loader), warmup_t=6,
        warmup_lr_init=1e-4, t_in_epochs=False)
    criterion = AsymmetricLossMultiLabel(gamma_neg=2, gamma_pos=0, clip=0.05)
    metrics = build_metrics("train_").to(device)

    for epoch in range(EPOCHS):
        loss = train_one_epoch(epoch, model, train_loader, criterion, optimizer,
                               scheduler, ema, metrics, device)
        acc = validate(ema.module, val_loader, device)
        print(f"epoch {epoch} done: loss {loss:.4f} ema label-acc {acc:.3f}")


if __name__ == "__main__":
    main()
