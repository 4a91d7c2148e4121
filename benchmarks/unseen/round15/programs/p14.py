"""Train a small detector of microaneurysms on retina tiles (dense, anchor free)."""
import contextlib
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

CONFIG = {
    "tile": 16,
    "channels": 3,
    "width": 12,
    "train_tiles": 480,
    "val_tiles": 64,
    "batch": 32,
    "epochs": 7,
    "lr": 3e-3,
    "focal": {"alpha": 0.25, "start": 0.5, "end": 2.0},
    "snapshots_from": 1,
}


def make_tiles(n, cfg, seed):
    """Reddish noise with a few dark dots; the target is 1 at a dot's centre."""
    rng = np.random.default_rng(seed)
    size = cfg["tile"]
    yy, xx = np.mgrid[:size, :size]
    images = rng.normal(0, 0.3, (n, cfg["channels"], size, size)).astype(np.float32)
    target = np.zeros((n, size, size), np.float32)
    for i in range(n):
        for _ in range(rng.integers(1, 5)):
            cy, cx = rng.integers(1, size - 1, 2)
            dot = np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / 1.5)
            images[i] -= 1.6 * dot
            target[i, cy, cx] = 1.0
    return torch.from_numpy(images), torch.from_numpy(target)


class Detector(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg["width"]
        self.stem = nn.Conv2d(cfg["channels"], w, 3, padding=1)
        self.body = nn.Sequential(
            nn.GroupNorm(3, w), nn.ReLU(), nn.Conv2d(w, w, 3, padding=1),
            nn.GroupNorm(3, w), nn.ReLU(), nn.Conv2d(w, w, 3, padding=1),
        )
        self.heat = nn.Conv2d(w, 1, 1)
        nn.init.constant_(self.heat.bias, -3.0)

    def forward(self, x):
        h = self.stem(x)
        return self.heat(h + self.body(h)).squeeze(1)


class FocalLoss(nn.Module):
    def __init__(self, alpha, start, end, ramp):
        super().__init__()
        self.alpha, self.start, self.end, self.ramp = alpha, start, end, ramp

    def focus(self, epoch):
        return self.start + (self.end - self.start) * min(1.0, epoch / self.ramp)

    def forward(self, logit, target, epoch):
        p = torch.sigmoid(logit)
        ce = F.binary_cross_entropy_with_logits(logit, target, reduction="none")
        miss = torch.where(target > 0, 1 - p, p)
        weight = torch.where(target > 0, 1 - self.alpha, self.alpha)
        return (weight * miss.pow(self.focus(epoch)) * ce).sum() / target.sum()


class SnapshotEnsemble:
    """Validation heat maps of the last epochs, averaged."""

    def __init__(self, target):
        self.target = target
        self.maps = []

    def update(self, heat):
        self.maps.append(heat)

    def score(self):
        mean = torch.stack(self.maps).mean(0)
        peak = F.max_pool2d(mean.unsqueeze(1), 3, 1, 1).squeeze(1)
        keep = (mean == peak).float() * mean
        top = keep.flatten(1).topk(4, dim=1)
        found = self.target.flatten(1).gather(1, top.indices).sum()
        return found / self.target.sum()


@contextlib.contextmanager
def evaluating(model):
    model.eval()
    with torch.no_grad():
        yield
    model.train()


def epochs_of(images, target, cfg, device):
    order = list(range(len(images)))
    for epoch in range(cfg["epochs"]):
        random.shuffle(order)
        batches = []
        for k in range(0, len(order), cfg["batch"]):
            index = torch.tensor(order[k:k + cfg["batch"]])
            batches.append((images[index].to(device), target[index].to(device)))
        yield epoch, batches


def main(cfg):
    random.seed(0)
    torch.manual_seed(0)
    device = torch_xla.device()
    model = Detector(cfg).to(device)
    loss_fn = FocalLoss(cfg["focal"]["alpha"], cfg["focal"]["start"], cfg["focal"]["end"], cfg["epochs"] - 1)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=1e-4)

    images, target = make_tiles(cfg["train_tiles"], cfg, 1)
    val_images, val_target = (t.to(device) for t in make_tiles(cfg["val_tiles"], cfg, 2))
    ensemble = SnapshotEnsemble(val_target)

    start = time.time()
    for epoch, batches in epochs_of(images, target, cfg, device):
        total = torch.zeros((), device=device)
        for x, y in batches:
            loss = loss_fn(model(x), y, epoch)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total = total + loss.detach()
            xm.mark_step()

        with evaluating(model):
            heat = torch.sigmoid(model(val_images))
            xm.mark_step()
            if epoch >= cfg["snapshots_from"]:
                ensemble.update(heat)
                recall = ensemble.score()
                print(
                    f"epoch {epoch}: loss {total.item() / len(batches):.4f} "
                    f"recall@4 {recall.item():.3f} ({time.time() - start:.0f}s)"
                )


if __name__ == "__main__":
    main(CONFIG)
