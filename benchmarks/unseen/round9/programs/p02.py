"""Tabular churn model: MLP with batch norm, trained with stochastic weight averaging."""
import argparse

import torch
import torch.nn as nn
import torch_xla
import torch_xla.distributed.parallel_loader as pl
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--swa-start", type=int, default=2)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--swa-lr", type=float, default=0.01)
    p.add_argument("--hidden", type=int, nargs="+", default=[64, 64, 32])
    return p.parse_args()


def make_table(n, features=20, seed=0):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, features, generator=g)
    w = torch.randn(features, generator=torch.Generator().manual_seed(99))
    y = ((x @ w + 0.5 * x[:, 0] * x[:, 1]) > 0).float()
    return TensorDataset(x, y)


class Block(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.fc = nn.Linear(d_in, d_out, bias=False)
        self.bn = nn.BatchNorm1d(d_out)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.bn(self.fc(x)))


class ChurnNet(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        dims = [features] + list(hidden)
        self.blocks = nn.Sequential(*[Block(a, b) for a, b in zip(dims[:-1], dims[1:])])
        self.head = nn.Linear(dims[-1], 1)

    def forward(self, x):
        return self.head(self.blocks(x)).squeeze(-1)


def train_epoch(model, loader, optimizer, criterion):
    model.train()
    total, count = None, 0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total = loss.detach() if total is None else total + loss.detach()
        count += 1
    torch_xla.sync()
    return total.item() / count


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    hits, seen = None, 0
    for x, y in loader:
        ok = ((model(x) > 0).float() == y).float().sum()
        hits = ok if hits is None else hits + ok
        seen += y.numel()
    torch_xla.sync()
    return hits.item() / seen


def main():
    args = parse_args()
    torch.manual_seed(1)
    device = torch_xla.device()

    train_set, val_set = make_table(640, seed=3), make_table(256, seed=4)
    train_loader = pl.MpDeviceLoader(
        DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True), device)
    val_loader = pl.MpDeviceLoader(DataLoader(val_set, batch_size=args.batch_size), device)

    model = ChurnNet(20, args.hidden).to(device)
    swa_model = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    swa_scheduler = SWALR(optimizer, swa_lr=args.swa_lr, anneal_epochs=2)
    criterion = nn.BCEWithLogitsLoss()

    for epoch in range(args.epochs):
        loss = train_epoch(model, train_loader, optimizer, criterion)
        if epoch >= args.swa_start:
            swa_model.update_parameters(model)
            swa_scheduler.step()
            torch_xla.sync()
        print(f"epoch {epoch}: loss {loss:.4f}")

    update_bn(train_loader, swa_model)
    torch_xla.sync()
    print(f"val accuracy: last {accuracy(model, val_loader):.3f}  swa {accuracy(swa_model, val_loader):.3f}")


if __name__ == "__main__":
    main()
