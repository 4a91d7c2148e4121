"""Small ViT from timm on synthetic textures: mixup/cutmix, EMA, cosine schedule."""
import math
import random

import numpy as np
import timm
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV3
from torch.utils.data import DataLoader, Dataset

CLASSES, IMAGE, BATCH, EPOCHS = 4, 16, 8, 3


class Textures(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        yy, xx = np.mgrid[0:IMAGE, 0:IMAGE] / IMAGE
        self.labels = rng.integers(0, CLASSES, n)
        images = []
        for label in self.labels:
            angle = math.pi * label / CLASSES
            wave = np.sin(12 * (xx * math.cos(angle) + yy * math.sin(angle)) + rng.uniform(0, 6.28))
            images.append(np.stack([wave, -wave, wave]) + rng.normal(0, 0.2, (3, IMAGE, IMAGE)))
        self.images = np.stack(images).astype(np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.from_numpy(self.images[i]), int(self.labels[i])


class Run:
    def __init__(self):
        self.device = torch_xla.device()
        self.model = VisionTransformer(img_size=IMAGE, patch_size=4, embed_dim=24, depth=1, num_heads=2,
                                       num_classes=CLASSES, drop_path_rate=0.1).to(self.device)
        self.ema = ModelEmaV3(self.model, decay=0.98, use_warmup=True)
        self.optimizer = create_optimizer_v2(self.model, opt='adamw', lr=2e-3, weight_decay=0.05)
        self.scheduler = CosineLRScheduler(self.optimizer, t_initial=EPOCHS * 8, warmup_t=4, warmup_lr_init=1e-4,
                                           lr_min=1e-5, t_in_epochs=False)
        self.mixup = Mixup(mixup_alpha=0.4, cutmix_alpha=1.0, prob=1.0, switch_prob=0.5, mode='batch',
                           label_smoothing=0.1, num_classes=CLASSES)
        self.criterion = SoftTargetCrossEntropy()
        self.updates = 0

    def train_epoch(self, loader):
        self.model.train()
        meter = AverageMeter()
        for i, (x, y) in enumerate(loader):
            x, y = x.to(self.device), y.to(self.device)
            x, target = self.mixup(x, y)
            loss = self.criterion(self.model(x), target)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.updates += 1
            self.ema.update(self.model, step=self.updates)
            xm.mark_step()
            self.scheduler.step_update(self.updates)
            if i % 4 == 3:
                meter.update(loss.item(), x.size(0))
        return meter.avg

    @torch.no_grad()
    def validate(self, model, loader):
        model.eval()
        meter = AverageMeter()
        for x, y in loader:
            hit = (model(x.to(self.device)).argmax(-1) == y.to(self.device)).float().mean()
            xm.mark_step()
            meter.update(hit.item(), len(x))
        return meter.avg


def main():
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    loader = DataLoader(Textures(8 * BATCH, 2), batch_size=BATCH, shuffle=True, drop_last=True)
    valid = DataLoader(Textures(3 * BATCH, 3), batch_size=BATCH)
    run = Run()
    xm.mark_step()
    print('timm', timm.__version__, sum(p.numel() for p in run.model.parameters()), 'parameters')
    for epoch in range(EPOCHS):
        loss = run.train_epoch(loader)
        print(f'epoch {epoch} loss {loss:.3f} accuracy {run.validate(run.model, valid):.2f} '
              f'ema {run.validate(run.ema.module, valid):.2f}')


if __name__ == '__main__':
    main()
