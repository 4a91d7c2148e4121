import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl


class SEBlock(nn.Module):
    def __init__(self, c, r=4):
        super().__init__()
        self.down = nn.Conv1d(c, c // r, 1)
        self.up = nn.Conv1d(c // r, c, 1)

    def forward(self, x):
        s = x.mean(-1, keepdim=True)
        return x * torch.sigmoid(self.up(F.relu(self.down(s))))


class ConvUnit(nn.Module):
    def __init__(self, cin, cout, stride, p_drop):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, 5, stride=stride, padding=2, bias=False)
        self.norm = nn.GroupNorm(4, cout)
        self.se = SEBlock(cout)
        self.drop = nn.Dropout(p_drop)

    def forward(self, x):
        return self.drop(self.se(F.relu(self.norm(self.conv(x)))))


class ECGNet(nn.Module):
    """1-D convnet for beat classification."""

    def __init__(self, leads=2, classes=5, width=8, p_drop=0.15):
        super().__init__()
        self.units = nn.ModuleList([
            ConvUnit(leads, width, 2, p_drop),
            ConvUnit(width, 2 * width, 2, p_drop),
        ])
        self.fc = nn.Linear(2 * width, classes)

    def forward(self, x):
        for u in self.units:
            x = u(x)
        return self.fc(x.amax(dim=-1))


def synthetic(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 5, (n,), generator=g)
    t = torch.linspace(0, 1, 40)
    base = torch.sin(2 * 3.1416 * (1 + y[:, None].float()) * t[None])
    x = torch.stack([base, base.flip(-1)], 1) + 0.3 * torch.randn(n, 2, 40, generator=g)
    return TensorDataset(x, y)


def evaluate(model, loader):
    model.eval()
    hits, total = 0, 0
    with torch.no_grad():
        for x, y in loader:
            pred = model(x).argmax(-1)
            hits += (pred == y).sum().item()
            total += y.numel()
    return hits / total


def main():
    torch.manual_seed(42)
    device = xm.xla_device()
    train_loader = DataLoader(synthetic(160, 0), batch_size=16, drop_last=True)
    val_loader = DataLoader(synthetic(32, 1), batch_size=16)
    model = ECGNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    class_weight = torch.tensor([1.0, 2.0, 2.0, 1.5, 3.0]).to(device)

    model.train()
    eval_every = 6
    para = pl.MpDeviceLoader(train_loader, device)
    for step, (x, y) in enumerate(para):
        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits, y, weight=class_weight)
        loss.backward()
        xm.optimizer_step(optimizer)
        if step and step % eval_every == 0:
            acc = evaluate(model, pl.MpDeviceLoader(val_loader, device))
            xm.master_print(f"step {step} val acc {acc:.3f}")
    xm.master_print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
