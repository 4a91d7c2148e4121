"""Train a small patch network on synthetic textures with Mixup/CutMix regularisation."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.layers import Mlp
from timm.loss import SoftTargetCrossEntropy
from timm.scheduler import CosineLRScheduler
from torch.utils.data import DataLoader, Dataset

IMAGE = 16
CLASSES = 5
BATCH_SIZE = 8
EPOCHS = 4


class Textures(Dataset):
    """Stripes whose direction gives the class."""

    def __init__(self, n, seed=41):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, CLASSES, n)
        yy, xx = np.mgrid[0:IMAGE, 0:IMAGE]
        images = []
        for label in self.labels:
            angle = math.pi * label / CLASSES
            wave = np.sin((xx * math.cos(angle) + yy * math.sin(angle)) * 1.5 + rng.uniform(0, 6))
            images.append(np.stack([wave, -wave, wave**2]) + rng.normal(0, 0.2, (3, IMAGE, IMAGE)))
        self.images = np.asarray(images, dtype=np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i]), int(self.labels[i])


class PatchMlp(nn.Module):
    """One embedding per image patch, a residual Mlp block, average over patches."""

    def __init__(self, patch=8, dim=16):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(3 * patch * patch, dim)
        self.mlp = Mlp(dim, hidden_features=32, act_layer=nn.ReLU)
        self.head = nn.Linear(dim, CLASSES)

    def forward(self, images):
        n, p = images.size(0), self.patch
        patches = images.reshape(n, 3, IMAGE // p, p, IMAGE // p, p)
        patches = patches.permute(0, 2, 4, 1, 3, 5).reshape(n, -1, 3 * p * p)
        x = self.embed(patches)
        x = x + self.mlp(x)
        return self.head(x.mean(dim=1))


def main():
    torch.manual_seed(10)
    np.random.seed(10)
    device = torch_xla.device()
    model = PatchMlp().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = CosineLRScheduler(optimizer, t_initial=EPOCHS, warmup_t=1, warmup_lr_init=0.01)
    mixup = Mixup(
        mixup_alpha=0.2,
        cutmix_alpha=1.0,
        switch_prob=0.8,
        label_smoothing=0.1,
        num_classes=CLASSES,
    )
    criterion = SoftTargetCrossEntropy()
    loader = DataLoader(Textures(64), BATCH_SIZE, shuffle=True, drop_last=True)

    for epoch in range(EPOCHS):
        scheduler.step(epoch)
        model.train()
        running = torch.zeros((), device=device)
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            images, targets = mixup(images, labels)
            loss = criterion(model(images), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.detach()
            torch_xla.sync()
        xm.master_print(f"epoch {epoch}  loss {running.item() / len(loader):.4f}")


if __name__ == "__main__":
    main()
