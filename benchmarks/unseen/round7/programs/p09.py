"""Image classification with gradient accumulation, scheduled dropout and a late weight average."""
import contextlib
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Settings:
    micro_batch: int = 8
    accumulate: int = 3
    updates: int = 16
    average_from: int = 6
    classes: int = 5
    lr: float = 0.02
    warmup: int = 4
    dropout: tuple = (0.05, 0.35)
    log: list = field(default_factory=list)


class Patterns:
    def __init__(self, cfg, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.proto = torch.randn(cfg.classes, 1, 12, 12, generator=self.g)
        self.cfg = cfg

    def __iter__(self):
        return self

    def __next__(self):
        y = torch.randint(0, self.cfg.classes, (self.cfg.micro_batch,), generator=self.g)
        return self.proto[y] + 0.7 * torch.randn(len(y), 1, 12, 12, generator=self.g), y


class ResidualBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(2, width)

    def forward(self, x):
        return x + F.silu(self.norm(self.conv(x)))


class Net(nn.Module):
    def __init__(self, cfg, width=8):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(ResidualBlock(width), ResidualBlock(width))
        self.drop = nn.Dropout(cfg.dropout[0])
        self.fc = nn.Linear(width * 36, cfg.classes)

    def forward(self, x):
        return self.fc(self.drop(self.blocks(self.stem(x)).flatten(1)))


class Callback:
    def on_update_begin(self, t):
        pass

    def on_update_end(self, t):
        pass


class LinearSchedules(Callback):
    def __init__(self, trainer):
        self.trainer = trainer

    def on_update_begin(self, t):
        cfg = self.trainer.cfg
        low, high = cfg.dropout
        self.trainer.model.drop.p = low + (high - low) * t / cfg.updates
        for group in self.trainer.opt.param_groups:
            group['lr'] = cfg.lr * min(1.0, (t + 1) / (cfg.warmup + 1))


class WeightAverage(Callback):
    def __init__(self, trainer):
        self.trainer, self.count = trainer, 0
        self.average = None

    @torch.no_grad()
    def on_update_end(self, t):
        if t < self.trainer.cfg.average_from:
            return
        params = list(self.trainer.model.parameters())
        if self.average is None:
            self.average = [p.clone() for p in params]
        else:
            for a, p in zip(self.average, params):
                a.lerp_(p, 0.1)
        torch_xla.sync()

    @contextlib.contextmanager
    def swapped(self):
        params = list(self.trainer.model.parameters())
        backup = [p.data for p in params]
        for p, a in zip(params, self.average):
            p.data = a
        yield
        for p, b in zip(params, backup):
            p.data = b


class Trainer:
    def __init__(self, cfg, device):
        self.cfg, self.device = cfg, device
        self.model = Net(cfg).to(device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=cfg.lr, momentum=0.9, nesterov=True)
        self.average = WeightAverage(self)
        self.callbacks = [LinearSchedules(self), self.average]

    def update(self, t, data):
        for c in self.callbacks:
            c.on_update_begin(t)
        self.opt.zero_grad()
        for i in range(self.cfg.accumulate):
            x, y = next(data)
            loss = F.cross_entropy(self.model(x.to(self.device)), y.to(self.device)) / self.cfg.accumulate
            loss.backward()
            if i + 1 < self.cfg.accumulate:
                torch_xla.sync()
        xm.optimizer_step(self.opt, barrier=True)
        for c in self.callbacks:
            c.on_update_end(t)
        return loss

    @torch.no_grad()
    def accuracy(self, data, batches=2):
        self.model.eval()
        hits = []
        for _ in range(batches):
            x, y = next(data)
            hit = (self.model(x.to(self.device)).argmax(1) == y.to(self.device)).float().mean()
            torch_xla.sync()
            hits.append(hit.item())
        self.model.train()
        return sum(hits) / len(hits)


def main():
    torch.manual_seed(0)
    cfg = Settings()
    data = Patterns(cfg, 21)
    trainer = Trainer(cfg, torch_xla.device())
    torch_xla.sync()
    for t in range(cfg.updates):
        loss = trainer.update(t, data)
        if t % 5 == 4:
            cfg.log.append((t, loss.item() * cfg.accumulate, trainer.accuracy(data)))
            print('update %d loss %.3f accuracy %.2f' % cfg.log[-1])
    with trainer.average.swapped():
        print(f'averaged weights accuracy {trainer.accuracy(data):.2f}')


if __name__ == '__main__':
    main()
