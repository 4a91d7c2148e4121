"""Crop-disease patches: linear probe first, then full fine-tuning with gradient
accumulation and an EMA copy for validation."""
import math
from types import SimpleNamespace

import timm
import torch
import torch.nn as nn
from timm.loss import LabelSmoothingCrossEntropy
from timm.utils import ModelEmaV2
import torch_xla
import torch_xla.core.xla_model as xm

cfg = SimpleNamespace(size=32, classes=4, batch=4, accum=2, probe_updates=4, updates=26, val_every=4,
                      probe_lr=2e-2, tune_lr=2e-3, clip=1.0, seed=17)


class LeafPatches(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.y = torch.randint(0, cfg.classes, (n,), generator=g)
        yy, xx = torch.meshgrid(torch.linspace(-1, 1, cfg.size), torch.linspace(-1, 1, cfg.size), indexing="ij")
        base = torch.stack([0.2 + 0.1 * xx, 0.6 + 0.1 * yy, 0.2 + 0 * xx])
        imgs = []
        for label in self.y.tolist():
            img = base.clone()
            for _ in range(1 + 2 * label):
                c = torch.rand(2, generator=g) * 1.6 - 0.8
                spot = torch.exp(-((xx - c[0]) ** 2 + (yy - c[1]) ** 2) / 0.02)
                img[0] += 0.5 * spot
                img[1] -= 0.4 * spot
            imgs.append(img + 0.03 * torch.randn(img.shape, generator=g))
        self.x = (torch.stack(imgs) - 0.45) / 0.25

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def forever(ds, batch):
    loader = torch.utils.data.DataLoader(ds, batch_size=batch, shuffle=True, drop_last=True)
    while True:
        yield from loader


def make_optimizer(params, lr):
    return torch.optim.AdamW(params, lr=lr, betas=(0.9, 0.98), weight_decay=0.02)


def set_backbone(model, trainable):
    head = {id(p) for p in model.get_classifier().parameters()}
    for p in model.parameters():
        p.requires_grad_(trainable or id(p) in head)


def lr_at(update):
    if update < cfg.probe_updates:
        return cfg.probe_lr
    frac = (update - cfg.probe_updates) / (cfg.updates - cfg.probe_updates)
    return cfg.tune_lr * 0.5 * (1 + math.cos(math.pi * frac))


def colour_jitter(x):
    b = x.size(0)
    scale = 1 + 0.1 * torch.randn(b, 3, 1, 1, device=x.device)
    shift = 0.05 * torch.randn(b, 3, 1, 1, device=x.device)
    return x * scale + shift


@torch.no_grad()
def validate(net, loader, device):
    correct = torch.zeros((), device=device)
    count = 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        correct += (net(x).argmax(-1) == y).float().sum()
        count += y.numel()
        xm.mark_step()
    return correct.item() / count


def main():
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    train, val = forever(LeafPatches(160, 1), cfg.batch), LeafPatches(16, 2)
    val_loader = torch.utils.data.DataLoader(val, batch_size=8)

    model = timm.create_model("test_vit", pretrained=False, num_classes=cfg.classes, img_size=cfg.size).to(device)
    ema = ModelEmaV2(model, decay=0.95)
    criterion = LabelSmoothingCrossEntropy(0.1)
    set_backbone(model, False)
    opt = make_optimizer(model.get_classifier().parameters(), cfg.probe_lr)

    model.train()
    for update in range(cfg.updates):
        if update == cfg.probe_updates:
            set_backbone(model, True)
            opt = make_optimizer(model.parameters(), cfg.tune_lr)
        for group in opt.param_groups:
            group["lr"] = lr_at(update)

        loss_sum = torch.zeros((), device=device)
        for micro in range(cfg.accum):
            x, y = next(train)
            x, y = x.to(device), y.to(device)
            loss = criterion(model(colour_jitter(x)), y) / cfg.accum
            loss.backward()
            loss_sum += loss.detach()
            if micro < cfg.accum - 1:
                xm.mark_step()
        nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], cfg.clip)
        opt.step()
        opt.zero_grad(set_to_none=True)
        ema.update(model)
        xm.mark_step()

        if (update + 1) % cfg.val_every == 0:
            acc = validate(ema.module, val_loader, device)
            print(f"update {update + 1:2d} loss {loss_sum.item():.3f} lr {lr_at(update):.1e} ema acc {acc:.3f}")


if __name__ == "__main__":
    main()
