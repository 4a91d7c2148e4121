# Plankton image classifier: depthwise conv net, SGD, averaged weights for export.
from dataclasses import dataclass, field

import torch
from torch import nn
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Cfg:
    classes: int = 7
    width: int = 8
    depth: list = field(default_factory=lambda: [1, 1])
    lr: float = 0.05
    mom: float = 0.9
    wd: float = 1e-4
    steps: int = 7
    avg_every: int = 3
    avg_decay: float = 0.98
    batch: int = 4


class SepConv(nn.Module):
    def __init__(self, c, k=3):
        super().__init__()
        self.dw = nn.Conv2d(c, c, k, padding=k // 2, groups=c, bias=False)
        self.bn = nn.BatchNorm2d(c)
        self.pw = nn.Conv2d(c, c, 1)

    def forward(self, x):
        return x + torch.relu(self.pw(self.bn(self.dw(x))))


class PlanktonNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        c = cfg.width
        layers = [nn.Conv2d(1, c, 3, stride=2, padding=1), nn.ReLU()]
        for i, n in enumerate(cfg.depth):
            layers += [SepConv(c) for _ in range(n)]
            if i + 1 < len(cfg.depth):
                layers += [nn.Conv2d(c, 2 * c, 2, stride=2), nn.ReLU()]
                c *= 2
        self.features = nn.Sequential(*layers)
        self.fc = nn.Linear(c, cfg.classes)

    def forward(self, x):
        return self.fc(self.features(x).mean((2, 3)))


class WeightAverage:
    """Shadow copy of the parameters that the export job reads."""

    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow, model.parameters()):
            s.mul_(self.decay).add_(p, alpha=1.0 - self.decay)


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = xm.xla_device()
        self.model = PlanktonNet(cfg).to(self.device)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=cfg.lr, momentum=cfg.mom, weight_decay=cfg.wd)
        self.crit = nn.CrossEntropyLoss()
        self.avg = WeightAverage(self.model, cfg.avg_decay)
        torch_xla.sync()

    def batch(self, g):
        x = torch.rand(self.cfg.batch, 1, 16, 16, generator=g)
        y = torch.randint(self.cfg.classes, (self.cfg.batch,), generator=g)
        return x.to(self.device), y.to(self.device)

    def fit(self):
        g = torch.Generator().manual_seed(11)
        for step in range(1, self.cfg.steps + 1):
            x, y = self.batch(g)
            loss = self.crit(self.model(x), y)
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            if step % self.cfg.avg_every == 0:
                self.avg.update(self.model)
            torch_xla.sync()
        print(f"final loss {loss.item():.3f}")


if __name__ == "__main__":
    torch.manual_seed(1)
    Trainer(Cfg()).fit()
