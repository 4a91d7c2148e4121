"""Small-vessel detection on synthetic coastal radar tiles (dense single-scale head)."""
import logging
import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
import torch_xla
import torch_xla.core.xla_model as xm

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", force=True)
log = logging.getLogger("radar")


@dataclass
class Config:
    tile: int = 32
    stride: int = 4
    batch_size: int = 8
    steps: int = 48
    lr: float = 4e-3
    neg_ratio: int = 3
    box_weight: float = 1.5
    max_ships: int = 4
    seed: int = 11

    @property
    def grid(self):
        return self.tile // self.stride


class RadarTiles(Dataset):
    """Speckled sea clutter with a few bright echoes; targets are rasterised on the grid."""

    def __init__(self, cfg, n):
        self.cfg = cfg
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        cfg = self.cfg
        rng = np.random.default_rng(cfg.seed * 1000 + i)
        img = rng.gamma(1.2, 0.25, size=(cfg.tile, cfg.tile)).astype(np.float32)
        obj = np.zeros((cfg.grid, cfg.grid), np.float32)
        box = np.zeros((4, cfg.grid, cfg.grid), np.float32)
        for _ in range(rng.integers(1, cfg.max_ships + 1)):
            cx, cy = rng.uniform(3, cfg.tile - 3, size=2)
            w, h = rng.uniform(2.0, 6.0, size=2)
            yy, xx = np.mgrid[: cfg.tile, : cfg.tile]
            img += 3.0 * np.exp(-(((xx - cx) / w) ** 2 + ((yy - cy) / h) ** 2)).astype(np.float32)
            gx, gy = int(cx // cfg.stride), int(cy // cfg.stride)
            obj[gy, gx] = 1.0
            box[:, gy, gx] = (cx / cfg.stride - gx, cy / cfg.stride - gy, math.log(w), math.log(h))
        return torch.from_numpy(img)[None], torch.from_numpy(obj), torch.from_numpy(box)


def block(cin, cout, stride):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
        nn.GroupNorm(4, cout),
        nn.SiLU(),
    )


class VesselNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.body = nn.Sequential(block(1, width, 2), block(width, width, 2), block(width, 2 * width, 1))
        self.obj = nn.Conv2d(2 * width, 1, 1)
        self.box = nn.Conv2d(2 * width, 4, 1)
        nn.init.constant_(self.obj.bias, -2.0)

    def forward(self, x):
        f = self.body(x.log1p())
        return self.obj(f).squeeze(1), self.box(f)


class DetectionLoss(nn.Module):
    def __init__(self, neg_ratio, box_weight):
        super().__init__()
        self.neg_ratio = neg_ratio
        self.box_weight = box_weight

    def forward(self, obj_logits, box_pred, obj, box):
        ce = F.binary_cross_entropy_with_logits(obj_logits, obj, reduction="none")
        pos = obj > 0.5
        n_pos = int(pos.sum().item())
        ce_pos = (ce * pos).sum()

        background = ce.masked_fill(pos, 0.0).flatten()
        n_neg = min(self.neg_ratio * n_pos, background.numel())
        ce_neg = background.topk(n_neg).values.sum()

        reg = F.smooth_l1_loss(box_pred, box, reduction="none").sum(1)
        reg = (reg * pos).sum()
        return (ce_pos + ce_neg + self.box_weight * reg) / max(n_pos, 1)


class Meter:
    def __init__(self):
        self.values = []

    def push(self, loss, step):
        self.values.append(loss.item())
        log.info("step %3d  loss %.4f", step, self.values[-1])


def train(cfg):
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    data = RadarTiles(cfg, cfg.steps * cfg.batch_size)
    loader = DataLoader(data, batch_size=cfg.batch_size, shuffle=False, drop_last=True)
    model = VesselNet().to(device)
    criterion = DetectionLoss(cfg.neg_ratio, cfg.box_weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, cfg.steps, eta_min=1e-4)
    meter = Meter()

    model.train()
    for step, (img, obj, box) in enumerate(loader):
        img, obj, box = img.to(device), obj.to(device), box.to(device)
        optimizer.zero_grad()
        obj_logits, box_pred = model(img)
        loss = criterion(obj_logits, box_pred, obj, box)
        loss.backward()
        xm.optimizer_step(optimizer, barrier=True)
        scheduler.step()
        if step % 12 == 11:
            meter.push(loss.detach(), step)
    return meter.values


if __name__ == "__main__":
    history = train(Config())
    log.info("first %.4f last %.4f", history[0], history[-1])
