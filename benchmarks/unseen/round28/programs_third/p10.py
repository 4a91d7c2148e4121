"""Train a tiny ViT with timm recipes (mixup/cutmix, soft targets, cosine schedule) on XLA."""
import argparse
import logging

import torch
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, accuracy

_logger = logging.getLogger("train")

parser = argparse.ArgumentParser()
parser.add_argument("--img-size", type=int, default=16)
parser.add_argument("--num-classes", type=int, default=6)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--mixup", type=float, default=0.2)
parser.add_argument("--cutmix", type=float, default=1.0)
parser.add_argument("--mixup-switch-prob", type=float, default=0.5)
parser.add_argument("--smoothing", type=float, default=0.1)
parser.add_argument("--log-interval", type=int, default=10)


class Stripes(torch.utils.data.Dataset):
    def __init__(self, n, args, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, args.num_classes, (n,), generator=g)
        ramp = torch.arange(args.img_size).float()
        waves = torch.sin(ramp[None] * (self.y[:, None].float() + 1) / 2)
        imgs = waves[:, None, None, :].expand(n, 3, args.img_size, args.img_size)
        self.x = imgs + 0.3 * torch.randn(imgs.shape, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, mixup_fn, scheduler, args):
    model.train()
    losses_m = AverageMeter()
    num_updates = epoch * len(loader)
    for batch_idx, (x, target) in enumerate(loader):
        if mixup_fn is not None:
            x, target = mixup_fn(x, target)
        output = model(x)
        loss = loss_fn(output, target)
        optimizer.zero_grad()
        loss.backward()
        xm.optimizer_step(optimizer)
        num_updates += 1
        scheduler.step_update(num_updates)
        if batch_idx % args.log_interval == args.log_interval - 1:
            xm.mark_step()
            losses_m.update(loss.item(), x.size(0))
            _logger.info("Train: %d [%d/%d] loss %.4f lr %.2e", epoch, batch_idx + 1, len(loader),
                         losses_m.avg, optimizer.param_groups[0]["lr"])


@torch.no_grad()
def validate(model, loader):
    model.eval()
    top1_m = AverageMeter()
    for x, target in loader:
        (acc1,) = accuracy(model(x), target, topk=(1,))
        xm.mark_step()
        top1_m.update(acc1.item(), x.size(0))
    return top1_m.avg


def main():
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(42)
    device = torch_xla.device()

    model = VisionTransformer(
        img_size=args.img_size, patch_size=4, num_classes=args.num_classes,
        embed_dim=24, depth=1, num_heads=2, mlp_ratio=2.0, class_token=False, global_pool="avg",
    ).to(device)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=args.lr, weight_decay=0.05)
    loader_train = torch.utils.data.DataLoader(
        Stripes(96, args, 0), args.batch_size, shuffle=True, drop_last=True)
    loader_eval = torch.utils.data.DataLoader(Stripes(32, args, 1), args.batch_size)
    loader_train = pl.MpDeviceLoader(loader_train, device)
    loader_eval = pl.MpDeviceLoader(loader_eval, device)

    mixup_fn = Mixup(
        mixup_alpha=args.mixup, cutmix_alpha=args.cutmix, switch_prob=args.mixup_switch_prob,
        label_smoothing=args.smoothing, num_classes=args.num_classes)
    scheduler = CosineLRScheduler(
        optimizer, t_initial=args.epochs * len(loader_train), lr_min=1e-5,
        warmup_t=5, warmup_lr_init=1e-5, t_in_epochs=False)
    loss_fn = SoftTargetCrossEntropy()

    for epoch in range(args.epochs):
        train_one_epoch(epoch, model, loader_train, optimizer, loss_fn, mixup_fn, scheduler, args)
        top1 = validate(model, loader_eval)
        _logger.info("Test: %d top1 %.2f", epoch, top1)


if __name__ == "__main__":
    main()
