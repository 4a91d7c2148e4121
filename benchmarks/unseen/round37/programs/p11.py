"""Arrhythmia classification on single-lead ECG windows.

Small 1-D residual network, SGD with a cosine schedule, then stochastic weight
averaging over the last part of the run.  The averaged model is evaluated at
the end.
"""
import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset, random_split


def synth_ecg(n, length, rng):
    """Synthetic beats: the class decides the width and height of the QRS."""
    t = np.linspace(0, 1, length, dtype=np.float32)
    y = rng.integers(0, 4, size=n)
    centre = rng.uniform(0.4, 0.6, size=(n, 1)).astype(np.float32)
    width = (0.02 + 0.015 * y[:, None]).astype(np.float32)
    height = np.where(y % 2 == 0, 1.0, -0.7)[:, None].astype(np.float32)
    x = height * np.exp(-((t - centre) ** 2) / (2 * width ** 2))
    x += 0.2 * np.exp(-((t - centre - 0.2) ** 2) / 0.005)
    x += 0.1 * rng.standard_normal((n, length)).astype(np.float32)
    return torch.from_numpy(x.astype(np.float32))[:, None], torch.from_numpy(y)


class ResBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv1d(cin, cout, 5, stride=stride, padding=2, bias=False)
        self.bn1 = nn.BatchNorm1d(cout)
        self.conv2 = nn.Conv1d(cout, cout, 5, padding=2, bias=False)
        self.bn2 = nn.BatchNorm1d(cout)
        self.skip = nn.Conv1d(cin, cout, 1, stride=stride, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(h))
        return F.relu(h + self.skip(x))


class ECGNet(nn.Module):
    def __init__(self, width=8, classes=4):
        super().__init__()
        self.blocks = nn.Sequential(
            ResBlock(1, width, 4),
            nn.MaxPool1d(2),
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.blocks(x).mean(-1))


def train_one_epoch(model, loader, optimizer):
    model.train()
    total = None
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
        loss.backward()
        xm.optimizer_step(optimizer)
        total = loss.detach() if total is None else total + loss.detach()
    return total / len(loader)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    correct = torch.zeros((), device=torch_xla.device())
    seen = 0
    for x, y in loader:
        correct += (model(x).argmax(-1) == y).sum()
        seen += y.shape[0]
    return correct.item() / seen


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--swa-start", type=int, default=1)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--lr", type=float, default=0.05)
    args = p.parse_args()

    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    device = torch_xla.device()

    x, y = synth_ecg(320, 64, rng)
    full = TensorDataset(x, y)
    train_set, val_set = random_split(
        full, [240, 80], generator=torch.Generator().manual_seed(1))
    train_loader = pl.MpDeviceLoader(
        DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True), device)
    val_loader = pl.MpDeviceLoader(
        DataLoader(val_set, batch_size=args.batch_size, drop_last=True), device)

    model = ECGNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    swa_model = AveragedModel(model)
    swa_scheduler = SWALR(optimizer, swa_lr=0.02, anneal_epochs=1)

    for epoch in range(args.epochs):
        loss = train_one_epoch(model, train_loader, optimizer)
        if epoch >= args.swa_start:
            swa_model.update_parameters(model)
            swa_scheduler.step()
        else:
            scheduler.step()
        torch_xla.sync()
        print(f"epoch {epoch} loss {loss.item():.4f} "
              f"lr {optimizer.param_groups[0]['lr']:.4f}")

    swa_model.train()
    update_bn(train_loader, swa_model)
    torch_xla.sync()

    print(f"val acc: last {evaluate(model, val_loader):.3f} "
          f"swa {evaluate(swa_model, val_loader):.3f}")


if __name__ == "__main__":
    main()
