"""Training a small timm ViT on synthetic shapes, with the usual timm recipe."""
import logging
import time

import numpy as np
import timm
import torch
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(message)s")
_logger = logging.getLogger("train")

ARGS = dict(
    model="vit_tiny_patch16_224",
    num_classes=4,
    img_size=32,
    batch_size=8,
    epochs=2,
    warmup_epochs=1,
    lr=0.05,
    weight_decay=1e-4,
    smoothing=0.1,
    mixup=0.0,
    cutmix=1.0,
    n_train=64,
    n_val=32,
    seed=1,
)


class Shapes(Dataset):
    """Squares, discs, crosses and stripes in random colours."""

    def __init__(self, n, size, seed):
        rng = np.random.RandomState(seed)
        yy, xx = np.mgrid[0:size, 0:size]
        self.x, self.y = [], []
        for _ in range(n):
            c = rng.randint(4)
            cy, cx = rng.randint(8, size - 8, 2)
            dy, dx = yy - cy, xx - cx
            m = [np.maximum(abs(dy), abs(dx)) < 6, dy ** 2 + dx ** 2 < 36,
                 np.minimum(abs(dy), abs(dx)) < 2, (dy + dx) % 6 < 3][c]
            img = m[None] * rng.rand(3, 1, 1) + 0.1 * rng.randn(3, size, size)
            self.x.append(img.astype(np.float32))
            self.y.append(c)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def train_one_epoch(epoch, model, loader, optimizer, scheduler, loss_fn, device, mixup_fn):
    losses, updates = AverageMeter(), epoch * len(loader)
    last = len(loader) - 1
    model.train()
    for i, (x, target) in enumerate(loader):
        x, target = x.to(device), target.to(device)
        if mixup_fn is not None:
            x, target = mixup_fn(x, target)
        loss = loss_fn(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch_xla.sync()
        updates += 1
        scheduler.step_update(updates)
        if i % 4 == 0 or i == last:
            losses.update(loss.item(), x.shape[0])
            _logger.info("epoch %d [%2d/%d] loss %.4f (%.4f) lr %.2e", epoch, i, last,
                         losses.val, losses.avg, optimizer.param_groups[0]["lr"])
    return losses.avg


@torch.no_grad()
def validate(model, loader, device):
    model.eval()
    correct = total = 0
    for x, target in loader:
        x, target = x.to(device), target.to(device)
        hit = (model(x).argmax(1) == target).sum()
        torch_xla.sync()
        correct += int(hit)
        total += target.shape[0]
    return 100.0 * correct / total


def main():
    a = ARGS
    torch.manual_seed(a["seed"])
    np.random.seed(a["seed"])
    device = torch_xla.device()
    train_set, val_set = Shapes(a["n_train"], a["img_size"], 0), Shapes(a["n_val"], a["img_size"], 1)
    train_loader = DataLoader(train_set, a["batch_size"], shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, a["batch_size"])
    model = timm.create_model(a["model"], pretrained=False, num_classes=a["num_classes"], img_size=a["img_size"],
                              patch_size=8, embed_dim=32, depth=2, num_heads=2, drop_path_rate=0.1).to(device)
    optimizer = create_optimizer_v2(model, opt="sgd", lr=a["lr"], weight_decay=a["weight_decay"], momentum=0.9)
    scheduler = CosineLRScheduler(optimizer, t_initial=a["epochs"] * len(train_loader), lr_min=1e-5,
                                  warmup_t=a["warmup_epochs"] * len(train_loader), warmup_lr_init=1e-5,
                                  warmup_prefix=True, t_in_epochs=False)
    mixup_fn = None
    if a["mixup"] > 0 or a["cutmix"] > 0:
        mixup_fn = Mixup(mixup_alpha=a["mixup"], cutmix_alpha=a["cutmix"], prob=1.0, switch_prob=0.5, mode="batch",
                         label_smoothing=a["smoothing"], num_classes=a["num_classes"])
    loss_fn = SoftTargetCrossEntropy()
    for epoch in range(a["epochs"]):
        t0 = time.time()
        loss = train_one_epoch(epoch, model, train_loader, optimizer, scheduler, loss_fn, device, mixup_fn)
        acc = validate(model, val_loader, device)
        _logger.info("* epoch %d loss %.4f acc %.1f (%.1fs)", epoch, loss, acc, time.time() - t0)


if __name__ == "__main__":
    main()
