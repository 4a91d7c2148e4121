"""Transfer learning for a small leaf classifier: linear probe, full fine-tuning,
then a short phase at higher resolution. Validation closes every epoch."""
import copy
from dataclasses import dataclass, field
from typing import List

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, TensorDataset

NUM_CLASSES = 5


@dataclass
class Phase:
    name: str
    epochs: int
    resolution: int
    lr: float
    train_backbone: bool


@dataclass
class Recipe:
    batch_size: int = 8
    seed: int = 33
    ema_decay: float = 0.9
    phases: List[Phase] = field(default_factory=lambda: [
        Phase("probe", 1, 16, 1e-2, False),
        Phase("finetune", 2, 16, 2e-3, True),
        Phase("hires", 4, 24, 5e-4, True),
    ])


def leaves(n, seed):
    """Blobs whose radius and vein frequency depend on the class, at 24x24."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(NUM_CLASSES, (n,), generator=g)
    grid = torch.linspace(-1, 1, 24)
    r2 = grid[None, :, None] ** 2 + grid[None, None, :] ** 2
    radius = (0.4 + 0.1 * y.float() + 0.05 * torch.randn(n, generator=g))[:, None, None]
    veins = 0.5 + 0.5 * torch.cos((2 + y.float())[:, None, None] * 3 * grid[None, None, :])
    leaf = (r2 < radius ** 2).float() * veins
    x = torch.stack([leaf * c for c in (0.3, 1.0, 0.4)], dim=1)
    return TensorDataset(x + 0.1 * torch.randn(x.shape, generator=g), y)


class Backbone(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.deep = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)

    def forward(self, x):
        h = F.relu(self.norm(self.stem(x)))
        return F.relu(self.deep(h)).mean((2, 3))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = Backbone(), nn.Linear(24, NUM_CLASSES)

    def set_backbone_training(self, flag):
        self.backbone.requires_grad_(flag)
        self.backbone.train(flag)

    def forward(self, x):
        return self.head(self.backbone(x))


def at_resolution(x, resolution):
    if x.size(-1) == resolution:
        return x
    return F.interpolate(x, size=(resolution, resolution), mode="bilinear", antialias=True)


class Runner:
    def __init__(self, recipe):
        self.recipe, self.device = recipe, torch_xla.device()
        self.model = Classifier().to(self.device)
        self.ema = copy.deepcopy(self.model).eval().requires_grad_(False)
        bs = recipe.batch_size
        self.train_loader = DataLoader(leaves(8 * bs, recipe.seed), bs, shuffle=True, drop_last=True)
        self.val_loader = DataLoader(leaves(20, recipe.seed + 1), bs)

    def epoch(self, phase, opt):
        self.model.train()
        self.model.set_backbone_training(phase.train_backbone)
        for x, y in self.train_loader:
            x, y = at_resolution(x, phase.resolution).to(self.device), y.to(self.device)
            loss = F.cross_entropy(self.model(x), y, label_smoothing=0.05)
            opt.zero_grad()
            loss.backward()
            opt.step()
            self.update_ema()
            torch_xla.sync()
        return loss.item()

    @torch.no_grad()
    def update_ema(self):
        for e, p in zip(self.ema.parameters(), self.model.parameters()):
            e.lerp_(p, 1 - self.recipe.ema_decay)
        for e, b in zip(self.ema.buffers(), self.model.buffers()):
            e.copy_(b)

    @torch.no_grad()
    def validate(self, resolution):
        correct = 0
        for x, y in self.val_loader:
            x = at_resolution(x, resolution).to(self.device)
            hits = (self.ema(x).argmax(1) == y.to(self.device)).sum()
            correct += hits.item()
        return correct / len(self.val_loader.dataset)

    def run(self):
        for phase in self.recipe.phases:
            params = self.model.parameters() if phase.train_backbone else self.model.head.parameters()
            opt = torch.optim.SGD(params, lr=phase.lr, momentum=0.9, weight_decay=1e-4)
            for n in range(phase.epochs):
                loss = self.epoch(phase, opt)
                acc = self.validate(phase.resolution)
                print(f"{phase.name:9s} epoch {n}: loss {loss:.3f} val {acc:.2%}")


if __name__ == "__main__":
    recipe = Recipe()
    torch.manual_seed(recipe.seed)
    Runner(recipe).run()
