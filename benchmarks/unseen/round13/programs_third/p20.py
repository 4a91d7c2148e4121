import itertools
import random

import torch
import torch.nn.functional as F
import torch_xla
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.resnet import BasicBlock, ResNet
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2

SIZES = (32, 40, 48)
NUM_CLASSES = 6
BATCH = 8
UPDATES = 24


class ShapesDataset(torch.utils.data.Dataset):
    """Filled circles, squares and crosses, each light on dark or dark on light."""

    def __init__(self, n, seed):
        self.rng = random.Random(seed)
        self.items = [(self.rng.randrange(NUM_CLASSES), self.rng.random(), self.rng.random()) for _ in range(n)]
        self.yy, self.xx = torch.meshgrid(torch.linspace(-1, 1, 48), torch.linspace(-1, 1, 48), indexing="ij")

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        label, a, b = self.items[i]
        dx, dy = self.xx - (a - 0.5), self.yy - (b - 0.5)
        kind, dark = divmod(label, 2)
        if kind == 0:
            m = dx ** 2 + dy ** 2 < 0.2
        elif kind == 1:
            m = (dx.abs() < 0.4) & (dy.abs() < 0.4)
        else:
            m = (dx.abs() < 0.15) | (dy.abs() < 0.15)
        img = m.float()[None].repeat(3, 1, 1)
        img = 1 - img if dark else img
        return img + 0.15 * torch.randn(3, 48, 48), label


class MultiScaleCollate:
    """Each batch comes at one of a few resolutions; mixup is applied on the host."""

    def __init__(self, sizes, seed):
        self.sizes = sizes
        self.rng = random.Random(seed)
        self.mixup = Mixup(mixup_alpha=0.2, cutmix_alpha=1.0, prob=0.8, switch_prob=0.5, label_smoothing=0.1, num_classes=NUM_CLASSES)
        self.queue = []

    def __call__(self, samples):
        if not self.queue:
            self.queue = self.rng.sample(self.sizes, len(self.sizes))
        size = self.queue.pop()
        x = torch.stack([s[0] for s in samples])
        y = torch.tensor([s[1] for s in samples])
        x = F.interpolate(x, size=(size, size), mode="bilinear", align_corners=False)
        return self.mixup(x, y)


def build(device):
    model = ResNet(BasicBlock, layers=(1, 1, 1, 1), num_classes=NUM_CLASSES, channels=(8, 16, 24, 32), stem_width=8, drop_rate=0.0)
    model.to(device)
    ema = ModelEmaV2(model, decay=0.8, device=device)
    optimizer = create_optimizer_v2(model, opt="lamb", lr=5e-3, weight_decay=0.02)
    scheduler = CosineLRScheduler(optimizer, t_initial=UPDATES, lr_min=1e-4, warmup_t=4, warmup_lr_init=5e-4, t_in_epochs=False)
    return model, ema, optimizer, scheduler


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    correct = 0
    for x, y in loader:
        correct += int((model(x.to(device)).argmax(1).cpu() == y).sum())
    return correct / len(loader.dataset)


def main():
    random.seed(0)
    torch.manual_seed(0)
    device = torch_xla.device()
    model, ema, optimizer, scheduler = build(device)
    criterion = SoftTargetCrossEntropy()
    train = torch.utils.data.DataLoader(
        ShapesDataset(96, 0), batch_size=BATCH, shuffle=True, drop_last=True, collate_fn=MultiScaleCollate(SIZES, 5))
    val = torch.utils.data.DataLoader(ShapesDataset(32, 1), batch_size=16)
    endless = itertools.chain.from_iterable(itertools.repeat(train))
    meter = AverageMeter()
    torch_xla.sync()

    for update, (x, target) in zip(range(UPDATES), endless):
        model.train()
        x, target = x.to(device), target.to(device)
        loss = criterion(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update(model)
        scheduler.step_update(update)
        torch_xla.sync()
        meter.update(loss.item(), x.size(0))
        if (update + 1) % 8 == 0:
            print(f"update {update + 1} loss {meter.avg:.3f} lr {optimizer.param_groups[0]['lr']:.2e} ema acc {evaluate(ema.module, val, device):.2f}")
            meter.reset()


if __name__ == "__main__":
    main()
