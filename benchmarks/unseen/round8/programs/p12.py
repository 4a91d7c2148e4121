"""Load forecaster with three horizons whose losses are balanced by dynamic weight averaging."""
import logging
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("forecast")


@dataclass
class Config:
    seed: int = 5
    context: int = 24
    horizons: tuple = (1, 6, 12)
    channels: int = 12
    batch_size: int = 8
    epochs: int = 9
    steps_per_epoch: int = 4
    lr: float = 6e-2
    lr_gamma: float = 0.93
    temperature: float = 0.5


class Load(Dataset):
    """Daily and weekly cycles with noise."""

    def __init__(self, n, cfg):
        g = torch.Generator().manual_seed(cfg.seed)
        t = torch.arange(n + cfg.context + cfg.horizons[-1]).float()
        clean = torch.sin(t * 2 * math.pi / 24) + 0.4 * torch.sin(t * 2 * math.pi / 168)
        self.series = clean + 0.15 * torch.randn(len(t), generator=g)
        self.cfg, self.n = cfg, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        end = i + self.cfg.context
        return self.series[i:end], torch.stack([self.series[end + h - 1] for h in self.cfg.horizons])


class Forecaster(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.lift = nn.Linear(cfg.context, 2 * cfg.channels)
        self.mix = nn.Linear(2 * cfg.channels, cfg.channels)
        self.heads = nn.ModuleList(nn.Linear(cfg.channels, 1) for _ in cfg.horizons)

    def forward(self, x):
        h = torch.tanh(self.mix(F.relu(self.lift(x))))
        return [head(h).squeeze(-1) for head in self.heads]


class WeightAveraging:
    """Weights each loss by how slowly it fell over the last two epochs."""

    def __init__(self, count, temperature):
        self.count, self.temperature = count, temperature
        self.past = []

    def update(self, means):
        self.past.append(means)

    def weights(self):
        if len(self.past) < 2:
            return [1.0] * self.count
        rate = [a / max(b, 1e-6) for a, b in zip(self.past[-1], self.past[-2])]
        e = [math.exp(r / self.temperature) for r in rate]
        return [round(self.count * v / sum(e), 1) for v in e]


def horizon_losses(outputs, target):
    return [F.mse_loss(out, target[:, i]) for i, out in enumerate(outputs)]


def combine(parts, weights):
    return torch.stack([w * p for w, p in zip(weights, parts)]).sum()


def train_epoch(model, loader, opt, weights, device):
    seen = []
    for context, target in loader:
        context, target = context.to(device), target.to(device)
        opt.zero_grad()
        parts = horizon_losses(model(context), target)
        combine(parts, weights).backward()
        opt.step()
        means = torch.stack([p.detach() for p in parts])
        torch_xla.sync()
        seen.append(means)
    return torch.stack([s.cpu() for s in seen]).mean(0).tolist()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = torch_xla.device()
    data = Load(cfg.batch_size * cfg.steps_per_epoch, cfg)
    loader = DataLoader(data, batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    model = Forecaster(cfg).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr)
    sched = torch.optim.lr_scheduler.ExponentialLR(opt, cfg.lr_gamma)
    balance = WeightAveraging(len(cfg.horizons), cfg.temperature)
    for epoch in range(cfg.epochs):
        weights = balance.weights()
        means = train_epoch(model, loader, opt, weights, device)
        balance.update(means)
        sched.step()
        log.info("epoch %d weights %s losses %s", epoch, weights, ["%.3f" % m for m in means])


if __name__ == "__main__":
    main()
