"""Leaf disease recognition with mixed-sample augmentation and activation monitoring."""
import json
import time
from collections import OrderedDict
from dataclasses import asdict, dataclass

import numpy as np
import torch
import torch.nn as nn
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from torch.utils.data import DataLoader, Dataset
import torch_xla

DISEASES = ("healthy", "rust", "blight", "mildew", "mosaic", "scab")


@dataclass
class Config:
    size: int = 24
    width: int = 12
    batch: int = 16
    steps: int = 45
    eval_every: int = 9
    lr: float = 3e-3
    weight_decay: float = 0.02
    mixup: float = 0.8
    cutmix: float = 1.0
    smoothing: float = 0.1
    seed: int = 17


class Leaves(Dataset):
    """Green blobs with spots whose colour and size depend on the disease."""

    TINT = torch.tensor([[0.0, 0.0, 0.0], [0.6, 0.2, -0.2], [0.3, -0.3, -0.2],
                         [0.5, 0.5, 0.5], [0.4, 0.3, -0.3], [-0.2, -0.4, -0.1]])

    def __init__(self, cfg, n, seed):
        g = torch.Generator().manual_seed(seed)
        axis = torch.linspace(-1, 1, cfg.size)
        yy, xx = torch.meshgrid(axis, axis, indexing="ij")
        self.label = torch.randint(0, len(DISEASES), (n,), generator=g)
        shape = 0.5 + 0.4 * torch.rand(n, 2, generator=g)
        leaf = ((xx / shape[:, :1, None]) ** 2 + (yy / shape[:, 1:, None]) ** 2 < 1).float()
        spots = (torch.rand(n, cfg.size, cfg.size, generator=g) < 0.06 * self.label[:, None, None].clamp(max=4)).float()
        green = torch.tensor([0.2, 0.6, 0.2])[None, :, None, None]
        tint = self.TINT[self.label][:, :, None, None]
        self.image = leaf[:, None] * (green + spots[:, None] * tint)
        self.image += 0.03 * torch.randn(self.image.shape, generator=g)

    def __len__(self):
        return len(self.label)

    def __getitem__(self, i):
        return self.image[i], self.label[i]


class ConvNormAct(nn.Sequential):
    def __init__(self, cin, cout, stride):
        super().__init__(
            nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
            nn.GroupNorm(4, cout),
            nn.SiLU(),
        )


class LeafNet(nn.Module):
    def __init__(self, width, n_classes):
        super().__init__()
        self.stages = nn.Sequential(OrderedDict(
            stem=ConvNormAct(3, width, 2),
            mid=ConvNormAct(width, 2 * width, 2),
            late=ConvNormAct(2 * width, 2 * width, 2),
        ))
        self.fc = nn.Linear(2 * width, n_classes)

    def forward(self, x):
        return self.fc(self.stages(x).mean((2, 3)))


class ActivationProbe:
    """Fraction of nearly dead units and typical magnitude after each stage."""

    def __init__(self, model):
        self.stats = OrderedDict()
        for name, stage in model.stages.named_children():
            stage.register_forward_hook(self.watch(name))

    def watch(self, name):
        def hook(module, inputs, output):
            out = output.detach()
            self.stats[name] = torch.stack([out.abs().mean(), (out.amax((0, 2, 3)) < 1e-2).float().mean()])
        return hook

    def summary(self):
        return {k: [round(v, 3) for v in s.tolist()] for k, s in self.stats.items()}


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    probe = ActivationProbe(model)
    correct = torch.zeros((), device=device)
    torch_xla.sync()
    for image, label in loader:
        with torch_xla.step():
            correct += (model(image.to(device)).argmax(-1) == label.to(device)).sum()
    model.train()
    return correct.item() / (len(loader) * loader.batch_size), probe.summary()


def build_optimizer(model, cfg):
    decay = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decay, "weight_decay": cfg.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=cfg.lr)


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    np.random.seed(cfg.seed)
    print(json.dumps(asdict(cfg)))
    device = torch_xla.device()
    train = DataLoader(Leaves(cfg, cfg.batch * cfg.steps, 1), cfg.batch, shuffle=True, drop_last=True)
    valid = DataLoader(Leaves(cfg, cfg.batch * 4, 2), cfg.batch, drop_last=True)
    model = LeafNet(cfg.width, len(DISEASES)).to(device)
    optimizer = build_optimizer(model, cfg)
    criterion = SoftTargetCrossEntropy()
    mix = Mixup(mixup_alpha=cfg.mixup, cutmix_alpha=cfg.cutmix, prob=0.8, switch_prob=0.4,
                label_smoothing=cfg.smoothing, num_classes=len(DISEASES))

    started = time.time()
    for step, (image, label) in enumerate(train, start=1):
        with torch_xla.step():
            image, target = mix(image.to(device), label.to(device))
            loss = criterion(model(image), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % cfg.eval_every == 0:
            acc, probe = evaluate(model, valid, device)
            print(f"step {step:3d}  loss {loss.item():.4f}  acc {acc:.3f}  {time.time() - started:.1f}s  {probe}")


if __name__ == "__main__":
    main()
