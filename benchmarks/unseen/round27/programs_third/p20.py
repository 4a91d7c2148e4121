import logging
import time
from functools import partial

import numpy as np
import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2
from torch.utils.data import DataLoader, Dataset
import torch_xla.core.xla_model as xm

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("train")

HPARAMS = dict(
    img=24, patch=8, dim=32, depth=1, heads=2, classes=8,
    batch=16, epochs=3, lr=2e-3, wd=0.05, smoothing=0.1,
    mixup=0.2, cutmix=1.0, switch=0.6, ema=0.95,
)


class Textures(Dataset):
    """Oriented gratings; the class is the orientation."""

    def __init__(self, size, img, classes):
        rng = np.random.default_rng(9)
        self.labels = rng.integers(0, classes, size)
        yy, xx = np.mgrid[:img, :img] / img
        self.images = []
        for c in self.labels:
            a = np.pi * c / classes
            wave = np.sin(20 * (np.cos(a) * xx + np.sin(a) * yy) + rng.uniform(0, 6.28))
            chans = [wave * rng.uniform(0.5, 1) + rng.normal(0, 0.2, wave.shape) for _ in range(3)]
            self.images.append(np.stack(chans).astype(np.float32))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i], int(self.labels[i])


def build(hp):
    return VisionTransformer(img_size=hp["img"], patch_size=hp["patch"], embed_dim=hp["dim"], depth=hp["depth"],
                             num_heads=hp["heads"], mlp_ratio=2, num_classes=hp["classes"], global_pool="avg",
                             norm_layer=partial(torch.nn.LayerNorm, eps=1e-6))


def train_one_epoch(epoch, model, loader, optimizer, scheduler, loss_fn, mixup_fn, ema, device):
    model.train()
    meter = AverageMeter()
    updates = epoch * len(loader)
    losses = []
    for images, target in loader:
        images, target = images.to(device), target.to(device)
        images, target = mixup_fn(images, target)
        output = model(images)
        loss = loss_fn(output, target)
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        ema.update(model)
        xm.mark_step()
        losses.append(loss.detach())
        updates += 1
        scheduler.step_update(updates)
    for l in losses:
        meter.update(l.item(), loader.batch_size)
    return meter.avg


def main(hp):
    log.info("timm %s", timm.__version__)
    torch.manual_seed(0)
    np.random.seed(0)
    device = xm.xla_device()
    data = Textures(128, hp["img"], hp["classes"])
    loader = DataLoader(data, batch_size=hp["batch"], shuffle=True, drop_last=True)
    model = build(hp).to(device)
    ema = ModelEmaV2(model, decay=hp["ema"])
    optimizer = create_optimizer_v2(model, opt="adamw", lr=hp["lr"], weight_decay=hp["wd"])
    scheduler = CosineLRScheduler(optimizer, t_initial=hp["epochs"] * len(loader), lr_min=1e-5,
                                  warmup_t=4, warmup_lr_init=1e-4, t_in_epochs=False)
    mixup_fn = Mixup(mixup_alpha=hp["mixup"], cutmix_alpha=hp["cutmix"], switch_prob=hp["switch"],
                     label_smoothing=hp["smoothing"], num_classes=hp["classes"])
    loss_fn = SoftTargetCrossEntropy()
    for epoch in range(hp["epochs"]):
        start = time.time()
        avg = train_one_epoch(epoch, model, loader, optimizer, scheduler, loss_fn, mixup_fn, ema, device)
        log.info("epoch %d loss %.4f (%.1fs)", epoch, avg, time.time() - start)


if __name__ == "__main__":
    main(HPARAMS)
