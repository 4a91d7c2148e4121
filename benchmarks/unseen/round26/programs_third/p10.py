"""Fine-grained pattern classification with a tiny timm ViT and the usual timm recipe (mixup / cutmix, soft targets)."""
import random

import numpy as np
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data.mixup import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from torch.utils.data import DataLoader, Dataset


class Gratings(Dataset):
    def __init__(self, n, size, num_classes, seed):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, num_classes, n)
        yy, xx = np.mgrid[:size, :size]
        imgs = []
        for y in self.labels:
            a = np.pi * y / num_classes
            wave = np.sin(0.9 * (xx * np.cos(a) + yy * np.sin(a)) + rng.uniform(0, 6.28))
            imgs.append(wave[None] * rng.uniform(0.5, 1.0, (3, 1, 1)) + 0.1 * rng.normal(size=(3, size, size)))
        self.imgs = np.stack(imgs).astype(np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.imgs[i], int(self.labels[i])


def build(num_classes, size):
    model = VisionTransformer(img_size=size, patch_size=4, embed_dim=24, depth=1, num_heads=2,
                              mlp_ratio=2.0, num_classes=num_classes, global_pool="avg", class_token=False)
    mixup_fn = Mixup(mixup_alpha=0.4, cutmix_alpha=1.0, prob=1.0, switch_prob=0.6, mode="batch",
                     label_smoothing=0.1, num_classes=num_classes)
    return model, mixup_fn


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, mixup_fn, scheduler, device, num_updates):
    model.train()
    for images, targets in loader:
        images, targets = images.to(device), targets.to(device)
        images, targets = mixup_fn(images, targets)
        optimizer.zero_grad()
        loss = loss_fn(model(images), targets)
        loss.backward()
        xm.optimizer_step(optimizer, barrier=True)
        num_updates += 1
        scheduler.step_update(num_updates=num_updates)
    print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)
    return num_updates


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    correct = torch.zeros((), device=device)
    for images, targets in loader:
        correct += (model(images.to(device)).argmax(1) == targets.to(device)).sum()
        xm.mark_step()
    return correct.item() / len(loader.dataset)


def main():
    num_classes, size, bs, epochs = 4, 16, 16, 3
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    device = torch_xla.device()
    train_loader = DataLoader(Gratings(bs * 10, size, num_classes, 0), batch_size=bs, shuffle=True, drop_last=True)
    val_loader = DataLoader(Gratings(bs * 3, size, num_classes, 1), batch_size=bs, drop_last=True)
    model, mixup_fn = build(num_classes, size)
    model = model.to(device)
    optimizer = create_optimizer_v2(model, opt="momentum", lr=0.05, weight_decay=1e-4)
    scheduler = CosineLRScheduler(optimizer, t_initial=epochs * 10 + 10, t_in_epochs=False)
    loss_fn = SoftTargetCrossEntropy()

    num_updates = 0
    for epoch in range(epochs):
        num_updates = train_one_epoch(epoch, model, train_loader, optimizer, loss_fn, mixup_fn, scheduler, device, num_updates)
        print(f"epoch {epoch} val acc {validate(model, val_loader, device):.3f}", flush=True)


if __name__ == "__main__":
    main()
