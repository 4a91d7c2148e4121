"""Leaf disease classification with a small timm ByobNet, mixup/cutmix and EMA."""
from types import SimpleNamespace

import numpy as np
import torch
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.byobnet import ByobNet, ByoBlockCfg, ByoModelCfg
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2, accuracy
from torch.utils.data import DataLoader, TensorDataset

CFG = SimpleNamespace(
    classes=4, size=16, batch=16, epochs=3, train=160, valid=32,
    lr=2e-3, warmup_epochs=1, mixup=0.2, cutmix=1.0, switch_prob=0.5, smoothing=0.1,
)
NET = ByoModelCfg(
    blocks=(
        ByoBlockCfg(type="basic", d=1, c=12, s=2, gs=0),
        ByoBlockCfg(type="basic", d=1, c=16, s=2, gs=0),
    ),
    stem_chs=8, stem_type="3x3",
)


def leaves(n, seed):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, CFG.classes, n)
    image = rng.normal(0, 0.5, (n, 3, CFG.size, CFG.size)).astype(np.float32)
    for i, c in enumerate(label):
        y, x = rng.integers(0, CFG.size - 5, 2)
        image[i, c % 3, y:y + 3 + c, x:x + 3] += 2.0
    return TensorDataset(torch.from_numpy(image), torch.from_numpy(label))


def loader(data, device, train):
    return pl.MpDeviceLoader(DataLoader(data, CFG.batch, shuffle=train, drop_last=train), device)


class Engine:
    def __init__(self):
        torch.manual_seed(9)
        np.random.seed(9)
        self.device = torch_xla.device()
        self.model = ByobNet(NET, num_classes=CFG.classes).to(self.device)
        self.ema = ModelEmaV2(self.model, decay=0.98)
        self.optimizer = create_optimizer_v2(self.model, opt="sgd", lr=CFG.lr, weight_decay=1e-4)
        self.scheduler = CosineLRScheduler(
            self.optimizer, t_initial=CFG.epochs, warmup_t=CFG.warmup_epochs, warmup_lr_init=1e-4)
        self.mix = Mixup(
            mixup_alpha=CFG.mixup, cutmix_alpha=CFG.cutmix, switch_prob=CFG.switch_prob,
            label_smoothing=CFG.smoothing, num_classes=CFG.classes)
        self.criterion = SoftTargetCrossEntropy()

    def train_epoch(self, epoch, batches):
        self.model.train()
        total = torch.zeros((), device=self.device)
        for image, label in batches:
            image, target = self.mix(image, label)
            loss = self.criterion(self.model(image), target)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.ema.update(self.model)
            total += loss.detach()
        self.scheduler.step(epoch + 1)
        return total.item() * CFG.batch / CFG.train

    @torch.no_grad()
    def validate(self, net, batches):
        net.eval()
        meter = AverageMeter()
        for image, label in batches:
            top1, = accuracy(net(image), label, topk=(1,))
            meter.update(top1.item(), len(label))
        return meter.avg


def main():
    engine = Engine()
    train, valid = leaves(CFG.train, 0), leaves(CFG.valid, 1)
    for epoch in range(CFG.epochs):
        loss = engine.train_epoch(epoch, loader(train, engine.device, True))
        top1 = engine.validate(engine.model, loader(valid, engine.device, False))
        averaged = engine.validate(engine.ema.module, loader(valid, engine.device, False))
        print(f"epoch {epoch}: loss {loss:.3f} top1 {top1:.1f} ema {averaged:.1f}")


if __name__ == "__main__":
    main()
