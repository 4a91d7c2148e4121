"""Fine-tune the last stage of a small ResNet on histology tiles (9 tissue classes)."""
import argparse

import timm
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassAccuracy

CLASSES = 9


def tiles(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (n,), generator=g)
    tint = torch.rand(CLASSES, 3, 1, 1, generator=torch.Generator().manual_seed(99))
    x = torch.randn(n, 3, 32, 32, generator=g) * 0.3 + tint[y]
    return TensorDataset(x, y)


def freeze_early(net):
    for part in (net.conv1, net.bn1, net.layer1, net.layer2, net.layer3):
        for p in part.parameters():
            p.requires_grad_(False)
        part.eval()


def param_groups(net, lr, wd):
    head, body = [], []
    for name, p in net.named_parameters():
        if not p.requires_grad:
            continue
        (head if name.startswith("fc") else body).append(p)
    return [{"params": body, "lr": lr * 0.1, "weight_decay": wd},
            {"params": head, "lr": lr, "weight_decay": 0.0}]


def train_epoch(net, loader, opt, criterion, device):
    seen, running = 0, torch.zeros((), device=device)
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = net(x)
        loss = criterion(out, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        running = running + loss.detach() * y.numel()
        seen += y.numel()
        torch_xla.sync()
    return running.item() / seen


def evaluate(net, loader, device):
    acc = MulticlassAccuracy(num_classes=CLASSES, validate_args=False)
    net.eval()
    with torch.no_grad():
        for x, y in loader:
            pred = net(x.to(device)).argmax(-1)
            torch_xla.sync()
            acc.update(pred.cpu(), y)
    net.train()
    return acc.compute().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--lr", type=float, default=0.05)
    args = ap.parse_args()

    torch.manual_seed(7)
    device = torch_xla.device()
    net = timm.create_model("resnet10t", pretrained=False, num_classes=CLASSES)
    net.train()
    freeze_early(net)
    net = net.to(device)
    opt = torch.optim.SGD(param_groups(net, args.lr, 1e-4), momentum=0.9, nesterov=True)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    train = DataLoader(tiles(48, 0), batch_size=12, shuffle=True, drop_last=True)
    val = DataLoader(tiles(24, 1), batch_size=12)
    torch_xla.sync()

    for epoch in range(args.epochs):
        loss = train_epoch(net, train, opt, criterion, device)
        acc = evaluate(net, val, device)
        xm.master_print(f"epoch {epoch}: loss {loss:.4f} val acc {acc:.3f}")


if __name__ == "__main__":
    main()
