"""Fine-grained leaf disease classification on multispectral chips, timm recipe.

Small ViT from timm, momentum SGD with timm's parameter groups, timm's cosine schedule with
warm-up, EMA weights, mixup/cutmix with soft targets.
"""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.models.vision_transformer import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, ModelEmaV2
from torch.utils.data import DataLoader, TensorDataset

BANDS = 5
SIZE = 32
CLASSES = 6


def chips(n, seed):
    """Leaves: a textured background per class plus class-dependent lesions."""
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (n,), generator=g)
    spectra = torch.randn(CLASSES, BANDS, 1, 1, generator=torch.Generator().manual_seed(0))
    lin = torch.linspace(-1, 1, SIZE)
    yy, xx = torch.meshgrid(lin, lin, indexing="ij")
    c = torch.rand(n, 2, generator=g) - 0.5
    d2 = (yy - c[:, 0, None, None]) ** 2 + (xx - c[:, 1, None, None]) ** 2
    lesion = torch.exp(-d2 / 0.1)[:, None]
    x = 0.4 * torch.randn(n, BANDS, SIZE, SIZE, generator=g) + lesion * spectra[y]
    return TensorDataset(x, y)


def build_model():
    return VisionTransformer(
        img_size=SIZE, patch_size=8, in_chans=BANDS, num_classes=CLASSES,
        embed_dim=24, depth=1, num_heads=2, mlp_ratio=2.0, class_token=False, global_pool="avg",
    )


def forever(loader):
    while True:
        yield from loader


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    hits = torch.zeros((), device=device)
    total = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        hits += (model(x).argmax(1) == y).sum()
        total += y.numel()
        xm.mark_step()
    return hits.item() / total


def train(args):
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    device = torch_xla.device()

    train_loader = DataLoader(chips(512, 1), batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(chips(64, 2), batch_size=32)

    model = build_model().to(device)
    ema = ModelEmaV2(model, decay=0.98)
    opt = create_optimizer_v2(model, opt="momentum", lr=args.lr, weight_decay=args.wd)
    sched = CosineLRScheduler(opt, t_initial=args.steps, warmup_t=4, warmup_lr_init=1e-3, t_in_epochs=False)
    mixup_fn = Mixup(
        mixup_alpha=0.4, cutmix_alpha=1.0, prob=0.9, switch_prob=0.6, mode="batch",
        label_smoothing=0.05, num_classes=CLASSES,
    )
    criterion = SoftTargetCrossEntropy()
    meter = AverageMeter()

    batches = forever(train_loader)
    for step in range(args.steps):
        x, y = next(batches)
        x = x.to(device)
        y = y.to(device)
        x, y = mixup_fn(x, y)

        model.train()
        loss = criterion(model(x), y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        opt.step()
        ema.update(model)
        sched.step_update(step + 1)
        xm.mark_step()

        if (step + 1) % args.log_every == 0:
            meter.update(loss.item(), x.shape[0])
            print(f"step {step + 1:3d}  loss {meter.val:.4f} ({meter.avg:.4f})  lr {opt.param_groups[0]['lr']:.4f}")

    acc = evaluate(ema.module, val_loader, device)
    print(f"ema top1 {100 * acc:.1f}")


def parse():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=32)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--wd", type=float, default=0.02)
    ap.add_argument("--clip", type=float, default=2.0)
    ap.add_argument("--log-every", type=int, default=8)
    ap.add_argument("--seed", type=int, default=3)
    return ap.parse_args()


if __name__ == "__main__":
    train(parse())
