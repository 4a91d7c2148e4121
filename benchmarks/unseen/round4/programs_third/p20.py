"""Training a small timm ViT with timm's Mixup/CutMix and model EMA, and torchmetrics for accuracy and AUROC."""
import os

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import timm
import torch
import torch_xla
import torchmetrics
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.scheduler import CosineLRScheduler
from torch.utils.data import DataLoader, TensorDataset

CLASSES, SIDE, BATCH = 4, 16, 8


def toy_images(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(CLASSES, (n,), generator=g)
    x = torch.randn(n, 3, SIDE, SIDE, generator=g) * 0.5
    for k in range(CLASSES):
        x[y == k, :, k * 4:k * 4 + 4] += 1.0
    return TensorDataset(x, y)


def create_model():
    return timm.models.vision_transformer.VisionTransformer(
        img_size=SIDE, patch_size=4, embed_dim=24, depth=2, num_heads=2, num_classes=CLASSES)


class Evaluator:
    def __init__(self, device):
        self.auroc = torchmetrics.classification.MulticlassAUROC(
            CLASSES, thresholds=None, validate_args=False).to(device)
        self.loss = torchmetrics.MeanMetric(nan_strategy="disable").to(device)

    @torch.no_grad()
    def run(self, model, loader, device):
        model.eval()
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            logits = model(x)
            self.loss.update(torch.nn.functional.cross_entropy(logits, y))
            self.auroc.update(logits.softmax(1), y)
            torch_xla.sync()
        return self.loss.compute().item(), self.auroc.compute().item()


def train_one_epoch(model, loader, mixup, criterion, opt, device):
    model.train()
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        x, target = mixup(x, y)
        loss = criterion(model(x), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
    return loss


def main(epochs=3):
    torch.manual_seed(0)
    np.random.seed(0)
    device = torch_xla.device()
    model = create_model().to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    sched = CosineLRScheduler(opt, t_initial=epochs + 2, warmup_t=2, warmup_lr_init=1e-5, lr_min=1e-6)
    mixup = Mixup(mixup_alpha=0.2, cutmix_alpha=1.0, prob=1.0, switch_prob=0.5, label_smoothing=0.1, num_classes=CLASSES)
    criterion = SoftTargetCrossEntropy()
    g = torch.Generator().manual_seed(0)
    train = DataLoader(toy_images(48, 0), BATCH, shuffle=True, drop_last=True, generator=g)
    val = DataLoader(toy_images(24, 1), BATCH, drop_last=True)
    evaluator = Evaluator(device)
    torch_xla.sync()
    for epoch in range(epochs):
        loss = train_one_epoch(model, train, mixup, criterion, opt, device)
        val_loss, auroc = evaluator.run(model, val, device)
        sched.step(epoch + 1)
        print(f"epoch {epoch} loss {loss.item():.4f} val {val_loss:.4f} auroc {auroc:.3f}")


if __name__ == "__main__":
    main()
