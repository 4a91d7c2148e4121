"""Spoken command classification on log-mel spectrograms with a small EfficientNet (timm)."""
from functools import partial

import torch
import torch.nn as nn
import torch_xla
from timm.loss import LabelSmoothingCrossEntropy
from timm.models._efficientnet_builder import decode_arch_def, resolve_bn_args
from timm.models.efficientnet import EfficientNet
from timm.optim import create_optimizer_v2

CFG = {
    "mels": 32,
    "frames": 32,
    "classes": 8,
    "batch_size": 8,
    "stem_size": 8,
    "num_features": 32,
    "arch": [["ds_r1_k3_s1_e1_c8"], ["ir_r1_k3_s2_e3_c16_se0.25"]],
    "bn_momentum": 0.1,
    "bn_eps": 1e-5,
    "drop_rate": 0.0,
    "smoothing": 0.1,
    "opt": "rmsproptf",
    "opt_eps": 1e-3,
    "lr": 0.01,
    "weight_decay": 2e-5,
}


def build_model(cfg):
    return EfficientNet(
        block_args=decode_arch_def(cfg["arch"]),
        num_classes=cfg["classes"],
        in_chans=1,
        stem_size=cfg["stem_size"],
        num_features=cfg["num_features"],
        act_layer=nn.ReLU,
        norm_layer=partial(nn.BatchNorm2d, **resolve_bn_args(dict(cfg))),
        drop_rate=cfg["drop_rate"],
    )


def spectrograms(cfg, n_batches, seed=0):
    g = torch.Generator().manual_seed(seed)
    mel = torch.arange(cfg["mels"]).view(1, 1, -1, 1)
    for _ in range(n_batches):
        y = torch.randint(0, cfg["classes"], (cfg["batch_size"],), generator=g)
        centre = (y * 4).view(-1, 1, 1, 1)
        x = torch.exp(-((mel - centre) / 3.0) ** 2).expand(-1, -1, -1, cfg["frames"])
        yield x + 0.1 * torch.randn(x.shape, generator=g), y


def main(cfg):
    torch.manual_seed(0)
    device = torch_xla.device()
    model = build_model(cfg).to(device).train()
    criterion = LabelSmoothingCrossEntropy(cfg["smoothing"])
    optimizer = create_optimizer_v2(
        model, opt=cfg["opt"], lr=cfg["lr"], weight_decay=cfg["weight_decay"], momentum=0.9, eps=cfg["opt_eps"]
    )
    for step, (x, y) in enumerate(spectrograms(cfg, 5)):
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        torch_xla.sync()
    print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main(CFG)
