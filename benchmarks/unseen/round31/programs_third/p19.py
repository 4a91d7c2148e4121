"""Train a small timm vision transformer on synthetic textures with the usual timm recipe."""
import math

import numpy as np
import timm
import torch
import torch_xla.core.xla_model as xm
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2, accuracy
from torch.utils.data import DataLoader, Dataset

CLASSES = 6
IMAGE = 32
EPOCHS = 2


class Textures(Dataset):
    """Gratings: the class is the orientation, everything else varies."""

    def __init__(self, count, seed, train):
        self.count, self.seed, self.train = count, seed, train
        self.yy, self.xx = np.mgrid[0:IMAGE, 0:IMAGE].astype(np.float32) / IMAGE

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, i))
        label = int(rng.integers(0, CLASSES))
        angle = math.pi * label / CLASSES + rng.normal(0, 0.05)
        freq = rng.uniform(3, 6)
        wave = np.sin(2 * math.pi * freq * (self.xx * math.cos(angle) + self.yy * math.sin(angle)) + rng.uniform(0, 6))
        tint = rng.uniform(0.4, 1.0, 3).astype(np.float32)
        image = wave[None] * tint[:, None, None] + rng.normal(0, 0.2, (3, IMAGE, IMAGE))
        image = torch.from_numpy(image.astype(np.float32))
        if self.train:
            pad = torch.nn.functional.pad(image[None], (2, 2, 2, 2), mode="reflect")[0]
            dy, dx = rng.integers(0, 5, 2)
            image = pad[:, dy:dy + IMAGE, dx:dx + IMAGE].contiguous()
        return image, label


def build_model():
    return VisionTransformer(
        img_size=IMAGE, patch_size=8, num_classes=CLASSES, embed_dim=24, depth=1, num_heads=2,
        mlp_ratio=2.0, drop_path_rate=0.1, global_pool="avg", class_token=False,
    )


def train_one_epoch(epoch, model, loader, opt, sched, loss_fn, mixup_fn, ema):
    model.train()
    updates = epoch * len(loader)
    total = 0.0
    for images, target in loader:
        images, target = mixup_fn(images, target)
        loss = loss_fn(model(images), target)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        xm.optimizer_step(opt)
        ema.update(model)
        updates += 1
        sched.step_update(updates)
        total = total + loss.detach()
    torch_xla.sync()
    return total.item() / len(loader)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    top1 = AverageMeter()
    for images, target in loader:
        output = model(images)
        torch_xla.sync()
        (acc,) = accuracy(output.cpu(), target.cpu(), topk=(1,))
        top1.update(acc.item(), images.size(0))
    return top1.avg


def main():
    np.random.seed(29)
    torch.manual_seed(29)
    device = torch_xla.device()
    train = DataLoader(Textures(80, 1, True), batch_size=8, shuffle=True, drop_last=True,
                       generator=torch.Generator().manual_seed(29))
    val = DataLoader(Textures(32, 2, False), batch_size=16)
    train, val = pl.MpDeviceLoader(train, device), pl.MpDeviceLoader(val, device)

    model = build_model().to(device)
    ema = ModelEmaV2(model, decay=0.95)
    mixup_fn = Mixup(
        mixup_alpha=0.2,
        cutmix_alpha=1.0,
        prob=1.0,
        switch_prob=0.5,
        mode="batch",
        label_smoothing=0.1,
        num_classes=CLASSES,
    )
    opt = create_optimizer_v2(model, opt="adamw", lr=2e-3, weight_decay=0.05, foreach=False)
    sched = CosineLRScheduler(opt, t_initial=EPOCHS * len(train), lr_min=1e-5, warmup_t=4,
                              warmup_lr_init=1e-4, t_in_epochs=False)
    loss_fn = SoftTargetCrossEntropy()

    print("timm", timm.__version__, "parameters", sum(p.numel() for p in model.parameters()))
    for epoch in range(EPOCHS):
        loss = train_one_epoch(epoch, model, train, opt, sched, loss_fn, mixup_fn, ema)
        print(f"epoch {epoch} loss {loss:.4f} top1 {validate(model, val):.1f} averaged {validate(ema.module, val):.1f}")


if __name__ == "__main__":
    main()
