"""Fine-grained leaf image classification with a tiny timm backbone and on-device augmentation."""
import random

import numpy as np
import timm
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data.random_erasing import RandomErasing
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler

NUM_CLASSES = 6
IMG = 32
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


class Leaves(torch.utils.data.Dataset):
    """Procedural leaves: outline frequency and hue depend on the species."""

    def __init__(self, n, seed):
        self.n, self.seed = n, seed
        self.grid = np.stack(np.meshgrid(np.linspace(-1, 1, IMG), np.linspace(-1, 1, IMG)))

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, i))
        y = int(rng.integers(NUM_CLASSES))
        gx, gy = self.grid
        r, th = np.hypot(gx, gy), np.arctan2(gy, gx) + rng.uniform(0, 6.28)
        edge = 0.6 + 0.15 * np.cos((y + 2) * th)
        leaf = (r < edge).astype(np.float32)
        hue = np.array([0.2 + 0.1 * y, 0.7 - 0.05 * y, 0.3], dtype=np.float32)
        img = leaf[None] * hue[:, None, None] + rng.normal(scale=0.05, size=(3, IMG, IMG))
        return np.clip(img * 255, 0, 255).astype(np.uint8), y


class DeviceLoader:
    """uint8 over the wire; normalisation, mixup and erasing happen on the accelerator."""

    def __init__(self, loader, device, re_prob, mixup_alpha, smoothing=0.1):
        self.loader, self.device = loader, device
        self.mean = torch.tensor([m * 255 for m in MEAN], device=device).view(1, 3, 1, 1)
        self.std = torch.tensor([s * 255 for s in STD], device=device).view(1, 3, 1, 1)
        self.erase = RandomErasing(probability=re_prob, mode="const", max_area=0.25, device=device)
        self.alpha, self.smoothing = mixup_alpha, smoothing
        self.rng = np.random.default_rng(7)

    def __len__(self):
        return len(self.loader)

    def _mix(self, x, y):
        lam = torch.tensor(self.rng.beta(self.alpha, self.alpha), dtype=torch.float32).to(self.device)
        soft = nn.functional.one_hot(y, NUM_CLASSES).float()
        soft = soft * (1 - self.smoothing) + self.smoothing / NUM_CLASSES
        return lam * x + (1 - lam) * x.flip(0), lam * soft + (1 - lam) * soft.flip(0)

    def __iter__(self):
        for x, y in self.loader:
            x, y = x.to(self.device), y.to(self.device)
            x = x.float().sub_(self.mean).div_(self.std)
            x = self.erase(x)
            yield self._mix(x, y)


def build_model():
    return VisionTransformer(
        img_size=IMG, patch_size=8, embed_dim=32, depth=1, num_heads=2, mlp_ratio=2.0,
        num_classes=NUM_CLASSES, global_pool="avg", fc_norm=True)


def main():
    random.seed(42)
    np.random.seed(42)
    torch.manual_seed(42)
    device = torch_xla.device()
    print("timm", timm.__version__)

    batch, steps = 8, 16
    loader = torch.utils.data.DataLoader(
        Leaves(batch * steps, seed=3), batch_size=batch, shuffle=True, drop_last=True,
        generator=torch.Generator().manual_seed(1))
    loader = DeviceLoader(loader, device, re_prob=0.25, mixup_alpha=0.4)

    model = build_model().to(device)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=2e-3, weight_decay=0.05, foreach=False)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=steps, lr_min=1e-5, warmup_t=4, warmup_lr_init=1e-4, t_in_epochs=False)
    criterion = SoftTargetCrossEntropy()

    model.train()
    for step, (x, target) in enumerate(loader):
        loss = criterion(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        xm.optimizer_step(optimizer)
        scheduler.step_update(step + 1)
        torch_xla.sync()
        if step % 4 == 3:
            print(f"step {step + 1}/{len(loader)} loss {loss.item():.4f} lr {optimizer.param_groups[0]['lr']:.2e}")


if __name__ == "__main__":
    main()
