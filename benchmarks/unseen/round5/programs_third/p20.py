"""Image classification with timm: small ViT, mixing augmentation, loss statistics."""
import os
from dataclasses import dataclass

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import torch
import torch_xla
from timm.data import Mixup
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from torch.utils.data import DataLoader, Dataset
from torchmetrics import CatMetric


@dataclass
class TrainConfig:
    image: int = 24
    patch: int = 6
    classes: int = 6
    dim: int = 32
    depth: int = 1
    heads: int = 2
    batch: int = 16
    steps: int = 32
    report_every: int = 4
    lr: float = 1e-3
    mixup: float = 0.4
    cutmix: float = 1.0
    smoothing: float = 0.05


class Shapes(Dataset):
    """Rings, bars and crosses at six orientations/frequencies."""

    def __init__(self, cfg, size=640, seed=0):
        self.cfg, self.size, self.seed = cfg, size, seed
        ax = np.linspace(-1, 1, cfg.image, dtype=np.float32)
        self.yy, self.xx = np.meshgrid(ax, ax, indexing="ij")

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 100003 + i)
        y = i % self.cfg.classes
        cx, cy = rng.uniform(-0.4, 0.4, 2).astype(np.float32)
        r = np.hypot(self.xx - cx, self.yy - cy)
        a = np.arctan2(self.yy - cy, self.xx - cx)
        img = np.sin((3 + y) * r * 3) if y < 3 else np.sin((y - 1) * a)
        img = np.stack([img, img ** 2, -img]) + 0.1 * rng.normal(size=(3, *r.shape))
        return torch.from_numpy(img.astype(np.float32)), y


class LossReport:
    """Percentiles of the per-sample losses for the dashboard."""

    def __init__(self, device):
        self.samples = CatMetric().to(device)

    def add(self, losses):
        self.samples.update(losses)

    def line(self):
        ordered, _ = torch.sort(self.samples.compute())
        n = ordered.shape[0]
        picks = torch.stack([ordered[n // 2], ordered[(9 * n) // 10]])
        median, p90 = picks.tolist()
        return f"loss p50 {median:.3f} p90 {p90:.3f}"


class Engine:
    def __init__(self, cfg):
        torch.manual_seed(0)
        np.random.seed(0)
        self.cfg, self.device = cfg, torch_xla.device()
        self.model = VisionTransformer(
            img_size=cfg.image, patch_size=cfg.patch, num_classes=cfg.classes,
            embed_dim=cfg.dim, depth=cfg.depth, num_heads=cfg.heads, mlp_ratio=2.0,
        ).to(self.device)
        self.mixup = Mixup(mixup_alpha=cfg.mixup, cutmix_alpha=cfg.cutmix, prob=1.0,
                           switch_prob=0.5, label_smoothing=cfg.smoothing,
                           num_classes=cfg.classes)
        self.optimizer = create_optimizer_v2(self.model, opt="adamw", lr=cfg.lr,
                                             weight_decay=0.05)
        self.schedule = CosineLRScheduler(self.optimizer, t_initial=cfg.steps, lr_min=1e-5,
                                          warmup_t=5, warmup_lr_init=1e-5, t_in_epochs=False)
        self.report = LossReport(self.device)

    def train_step(self, images, target, index):
        images, target = images.to(self.device), target.to(self.device)
        images, soft = self.mixup(images, target)
        logits = self.model(images)
        per_sample = torch.sum(-soft * torch.log_softmax(logits, dim=-1), dim=-1)
        loss = per_sample.mean()
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step_update(index)
        torch_xla.sync()
        return per_sample.detach()

    def run(self):
        loader = DataLoader(Shapes(self.cfg), batch_size=self.cfg.batch, shuffle=True,
                            drop_last=True)
        step = 0
        while step < self.cfg.steps:
            for images, target in loader:
                self.report.add(self.train_step(images, target, step))
                step += 1
                if step % self.cfg.report_every == 0:
                    print(f"step {step:3d} {self.report.line()}", flush=True)
                if step == self.cfg.steps:
                    break


if __name__ == "__main__":
    Engine(TrainConfig()).run()
