"""Plankton imagery, long-tailed classes: small ViT from timm, focal loss, EMA weights."""
import math
from dataclasses import dataclass

import numpy as np
import timm
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from timm.layers import DropPath
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV2


@dataclass
class Config:
    classes: int = 10
    size: int = 32
    batch: int = 12
    steps: int = 18
    warmup: int = 5
    lr: float = 3e-2
    drop_path: float = 0.2
    focal_gamma: float = 2.5
    tail_exponent: float = 0.25
    log_every: int = 3
    seed: int = 11


class PlanktonCrops(torch.utils.data.IterableDataset):
    """Bright blobs with class-dependent number of appendages on a dark field."""

    def __init__(self, cfg):
        self.cfg = cfg
        prior = 1.0 / np.arange(1, cfg.classes + 1)
        self.prior = prior / prior.sum()

    def __iter__(self):
        cfg = self.cfg
        rng = np.random.default_rng(cfg.seed)
        yy, xx = np.mgrid[-1:1:cfg.size * 1j, -1:1:cfg.size * 1j]
        while True:
            label = int(rng.choice(cfg.classes, p=self.prior))
            phase, scale = rng.uniform(0, 2 * np.pi), rng.uniform(0.35, 0.6)
            r, theta = np.hypot(xx, yy), np.arctan2(yy, xx)
            edge = scale * (1 + 0.3 * np.cos((label + 1) * theta + phase))
            img = 1 / (1 + np.exp((r - edge) * 20)) + rng.normal(0, 0.15, r.shape)
            yield torch.from_numpy(np.repeat(img[None].astype(np.float32), 3, 0)), label


class TailFocalLoss(nn.Module):
    def __init__(self, prior, exponent):
        super().__init__()
        w = torch.as_tensor(prior, dtype=torch.float32) ** -exponent
        self.register_buffer("class_weight", w / w.mean())

    def forward(self, logits, target, gamma):
        logp = F.log_softmax(logits, dim=-1)
        logpt = logp.gather(1, target[:, None]).squeeze(1)
        pt = logpt.exp()
        mod = (1.0 - pt).clamp(min=1e-6).pow(gamma)
        return -(self.class_weight[target] * mod * logpt).mean()


class Schedules:
    def __init__(self, cfg):
        self.cfg = cfg

    def ramp(self, step):
        return 0.5 - 0.5 * math.cos(math.pi * (step + 1) / self.cfg.steps)

    def drop_path(self, step):
        return 0.02 + (self.cfg.drop_path - 0.02) * self.ramp(step)

    def gamma(self, step):
        return self.cfg.focal_gamma * self.ramp(step)


def set_drop_path(model, rate):
    blocks = [m for m in model.modules() if isinstance(m, DropPath)]
    for i, m in enumerate(blocks):
        m.drop_prob = rate * (i + 1) / len(blocks)


def build(cfg):
    model = VisionTransformer(
        img_size=cfg.size, patch_size=8, embed_dim=24, depth=2, num_heads=2, mlp_ratio=2.0, num_classes=cfg.classes,
        global_pool="avg", class_token=False, drop_path_rate=cfg.drop_path,
    )
    return model


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    data = PlanktonCrops(cfg)
    loader = torch.utils.data.DataLoader(data, batch_size=cfg.batch)

    model = build(cfg).to(device)
    ema = ModelEmaV2(model, decay=0.98)
    criterion = TailFocalLoss(data.prior, cfg.tail_exponent).to(device)
    optimizer = create_optimizer_v2(model, opt="momentum", lr=cfg.lr, weight_decay=1e-4)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=cfg.steps, warmup_t=cfg.warmup, warmup_lr_init=1e-3, t_in_epochs=False,
    )
    schedules = Schedules(cfg)
    print(f"timm {timm.__version__}, {sum(p.numel() for p in model.parameters())} parameters")

    model.train()
    window = torch.zeros((), device=device)
    for step, (images, labels) in enumerate(loader):
        if step == cfg.steps:
            break
        set_drop_path(model, schedules.drop_path(step))
        images, labels = images.to(device), labels.to(device)
        loss = criterion(model(images), labels, schedules.gamma(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step_update(step + 1)
        ema.update(model)
        window += loss.detach()
        torch_xla.sync()
        if (step + 1) % cfg.log_every == 0:
            lr = optimizer.param_groups[0]["lr"]
            print(f"{step + 1:4d}  loss {window.item() / cfg.log_every:.4f}  lr {lr:.2e}")
            window.zero_()


if __name__ == "__main__":
    main()
