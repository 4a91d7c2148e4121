#!/usr/bin/env python
# CIFAR trainer, second edition: config object, Trainer class, callbacks.
from dataclasses import dataclass
from typing import Callable, List

import torch
import torch_xla
import torch_xla.core.xla_model as xm
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class TrainConfig:
    widths: tuple = (8, 12, 16)
    classes: int = 10
    learning_rate: float = 0.05
    momentum: float = 0.9
    batch_size: int = 8
    max_steps: int = 4
    report_every: int = 2


def conv(n_in, n_out, k=3, stride=1):
    return nn.Conv2d(n_in, n_out, k, stride=stride, padding=k // 2, bias=False)


class ResidualUnit(nn.Module):
    def __init__(self, n_in, n_out, stride=1):
        super().__init__()
        self.skip = conv(n_in, n_out, 1, stride)
        self.norm_b = nn.BatchNorm2d(n_out)
        self.norm_a = nn.BatchNorm2d(n_out)
        self.conv_b = conv(n_out, n_out)
        self.conv_a = conv(n_in, n_out, 3, stride)

    def forward(self, inputs):
        y = self.conv_a(inputs)
        y = self.norm_a(y).relu()
        y = self.norm_b(self.conv_b(y))
        return (y + self.skip(inputs)).relu()


class SmallResNet(nn.Module):
    def __init__(self, cfg: TrainConfig):
        super().__init__()
        w0, w1, w2 = cfg.widths
        self.classifier = nn.Linear(w2, cfg.classes)
        self.stages = nn.ModuleList([ResidualUnit(w1, w2, 2), ResidualUnit(w0, w1, 2)])
        self.stem = nn.Sequential(conv(3, w0), nn.BatchNorm2d(w0), nn.ReLU())

    def forward(self, images):
        features = self.stem(images)
        for stage in reversed(self.stages):
            features = stage(features)
        pooled = torch.mean(features, dim=[2, 3])
        return self.classifier(pooled)


class Trainer:
    def __init__(self, cfg: TrainConfig, callbacks: List[Callable] = ()):
        self.cfg, self.callbacks = cfg, list(callbacks)
        self.device = torch_xla.device()
        self.net = SmallResNet(cfg).to(self.device)
        self.opt = torch.optim.SGD(
            self.net.parameters(), lr=cfg.learning_rate, momentum=cfg.momentum
        )

    def _entropy(self, logits):
        p = logits.softmax(dim=1)
        return -(p * p.log()).sum(dim=1)

    def step(self, batch):
        y = batch[1].to(self.device)
        x = batch[0].to(self.device)
        self.opt.zero_grad()
        logits = self.net(x)
        self._entropy(logits)
        loss = nn.CrossEntropyLoss()(logits, y)
        loss.backward()
        self.opt.step()
        accuracy = (logits.argmax(1) == y).float().mean()
        return loss, accuracy, logits

    def fit(self, loader):
        for i, batch in enumerate(loader):
            if i >= self.cfg.max_steps:
                return
            loss, accuracy, logits = self.step(batch)
            xm.mark_step()
            for cb in self.callbacks:
                cb(i, loss, accuracy, self.cfg)


def report(i, loss, accuracy, cfg):
    if (i + 1) % cfg.report_every == 0:
        xm.master_print(f"{i + 1}/{cfg.max_steps} loss={loss.item():.3f} acc={accuracy.item():.2f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    config = TrainConfig()
    images = torch.randn(64, 3, 16, 16)
    targets = torch.randint(0, config.classes, (64,))
    Trainer(config, [report]).fit(DataLoader(TensorDataset(images, targets), config.batch_size))
