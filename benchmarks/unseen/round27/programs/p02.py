# Human activity recognition from wrist IMU windows (6 channels, 50 Hz).
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset


@dataclass
class Args:
    channels: int = 6
    length: int = 64
    classes: int = 5
    batch_size: int = 16
    steps: int = 32
    lr: float = 0.02
    log_every: int = 4
    max_gap: int = 20
    seed: int = 5


class WristWindows(Dataset):
    def __init__(self, args, n):
        g = torch.Generator().manual_seed(args.seed)
        self.y = torch.randint(0, args.classes, (n,), generator=g)
        t = torch.arange(args.length) / 50.0
        freq = 0.5 + self.y[:, None, None].float()
        phase = torch.rand(n, args.channels, 1, generator=g) * 6.28
        self.x = torch.sin(6.28 * freq * t + phase) + 0.3 * torch.randn(n, args.channels, args.length, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class SensorGap(nn.Module):
    """Simulates dropped bluetooth packets: one gap per batch, all channels."""

    def __init__(self, max_gap):
        super().__init__()
        self.max_gap = max_gap

    def forward(self, x):
        if not self.training:
            return x
        width = random.randint(4, self.max_gap)
        start = random.randint(0, x.size(-1) - width)
        x = x.clone()
        x[..., start:start + width] = 0.0
        return x


class TinyConvNet(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.gap = SensorGap(args.max_gap)
        self.c1 = nn.Conv1d(args.channels, 16, 5, padding=2)
        self.c2 = nn.Conv1d(16, 24, 5, stride=2, padding=2)
        self.norm = nn.GroupNorm(4, 24)
        self.head = nn.Linear(24, args.classes)

    def forward(self, x):
        x = self.gap(x)
        x = F.relu(self.c1(x))
        x = F.relu(self.norm(self.c2(x)))
        return self.head(x.mean(-1))


class Meter:
    def __init__(self, name):
        self.name = name
        self.values = []

    def update(self, value):
        self.values.append(value.detach())

    @property
    def avg(self):
        return torch.stack(self.values).mean()

    def __str__(self):
        return f"{self.name} {self.avg.item():.4f}"


def endless(dataset, args):
    while True:
        loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True, drop_last=True)
        yield from pl.MpDeviceLoader(loader, xm.xla_device(), batches_per_execution=10 ** 6)


def main():
    args = Args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    device = xm.xla_device()
    data = WristWindows(args, 512)
    model = TinyConvNet(args).to(device).train()
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    meters = {"loss": Meter("loss"), "acc": Meter("acc")}

    batches = endless(data, args)
    for step in range(1, args.steps + 1):
        x, y = next(batches)
        opt.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        xm.optimizer_step(opt, barrier=True)
        meters["loss"].update(loss)
        meters["acc"].update((logits.argmax(1) == y).float().mean())
        xm.mark_step()
        if step % args.log_every == 0:
            xm.master_print(f"[{step:3d}] " + "  ".join(str(m) for m in meters.values()))


if __name__ == "__main__":
    main()
