"""Fine-tune a small conv backbone on a toy 5-class problem."""
import math

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 2
BATCH = 12
HEAD_ONLY_EPOCHS = 1


def conv_bn(i, o, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, stride=stride, padding=1, groups=groups, bias=False),
        nn.BatchNorm2d(o),
        nn.ReLU6(),
    )


class InvertedResidual(nn.Module):
    def __init__(self, ch, expand=2):
        super().__init__()
        mid = ch * expand
        self.expand = nn.Sequential(nn.Conv2d(ch, mid, 1, bias=False), nn.BatchNorm2d(mid), nn.ReLU6())
        self.dw = conv_bn(mid, mid, groups=mid)
        self.project = nn.Sequential(nn.Conv2d(mid, ch, 1, bias=False), nn.BatchNorm2d(ch))

    def forward(self, x):
        return x + self.project(self.dw(self.expand(x)))


class TinyMobile(nn.Module):
    def __init__(self, num_classes=5):
        super().__init__()
        self.backbone = nn.Sequential(conv_bn(3, 8, stride=2), InvertedResidual(8), conv_bn(8, 16, stride=2))
        self.head = nn.Sequential(nn.Linear(16, 16), nn.Hardswish(), nn.Linear(16, num_classes))

    def forward(self, x):
        f = self.backbone(x).mean((2, 3))
        return self.head(f)


def set_trainable(module, flag):
    for p in module.parameters():
        p.requires_grad = flag


def synthetic(n=44):
    g = torch.Generator().manual_seed(0)
    y = torch.arange(n) % 5
    x = torch.randn(n, 3, 12, 12, generator=g) + y.view(-1, 1, 1, 1) * 0.2
    return TensorDataset(x, y)


def run_epoch(epoch, net, loader, opt, crit, device):
    net.train()
    seen, total = 0, None
    for xb, yb in loader:
        xb, yb = xb.to(device), yb.to(device)
        opt.zero_grad()
        loss = crit(net(xb), yb)
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        seen += yb.numel()
        total = loss.detach()
    print(f"epoch {epoch} seen {seen} loss {total.item():.4f}")


def main():
    torch.manual_seed(1)
    device = xm.xla_device()
    net = TinyMobile().to(device)
    crit = nn.CrossEntropyLoss()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    ds = synthetic()
    loader = DataLoader(ds, batch_size=BATCH, shuffle=True, generator=torch.Generator().manual_seed(2))
    print("steps per epoch", math.ceil(len(ds) / BATCH))
    for epoch in range(EPOCHS):
        set_trainable(net.backbone, epoch >= HEAD_ONLY_EPOCHS)
        run_epoch(epoch, net, loader, opt, crit, device)


if __name__ == "__main__":
    main()
