"""SimSiam-style pretraining with a linear probe and a collapse monitor between epochs."""
import logging
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("simsiam")


@dataclass
class Config:
    seed: int = 37
    inputs: int = 24
    dim: int = 16
    classes: int = 4
    batch_size: int = 16
    epochs: int = 5
    steps: int = 6
    lr: float = 5e-2
    noise: float = 0.3


class Encoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(cfg.inputs, 32), nn.ReLU(), nn.Linear(32, cfg.dim))
        self.projector = nn.Linear(cfg.dim, cfg.dim)

    def forward(self, x):
        return self.projector(F.relu(self.body(x)))


class SimSiam(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.encoder = Encoder(cfg)
        self.predictor = nn.Sequential(nn.Linear(cfg.dim, 8), nn.ReLU(), nn.Linear(8, cfg.dim))

    def forward(self, a, b):
        za, zb = self.encoder(a), self.encoder(b)
        pa, pb = self.predictor(za), self.predictor(zb)
        return -(F.cosine_similarity(pa, zb.detach()).mean() + F.cosine_similarity(pb, za.detach()).mean()) / 2


class Patterns:
    def __init__(self, cfg):
        self.cfg = cfg
        self.g = torch.Generator().manual_seed(cfg.seed)
        self.centres = torch.randn(cfg.classes, cfg.inputs, generator=self.g)

    def sample(self, n):
        y = torch.randint(0, self.cfg.classes, (n,), generator=self.g)
        return self.centres[y] + 0.2 * torch.randn(n, self.cfg.inputs, generator=self.g), y

    def views(self):
        x, _ = self.sample(self.cfg.batch_size)
        jitter = lambda: x + self.cfg.noise * torch.randn(x.shape, generator=self.g)
        return jitter(), jitter()


class FeatureTap:
    """Reads a module's output without touching its code."""

    def __init__(self):
        self.features = None
        self.spread = None

    def attach(self, module):
        return module.register_forward_hook(self._on_forward)

    def _on_forward(self, module, args, output):
        self.features = output.detach()
        self.spread = F.normalize(self.features, dim=-1).std(0).mean()


class Monitor:
    def __init__(self):
        self.taps = {}

    def tap(self, name, module):
        tap = FeatureTap()
        tap.attach(module)
        self.taps[name] = tap
        return tap


@torch.no_grad()
def probe(model, data, monitor, epoch, device):
    """Nearest class mean accuracy on body features, and their spread."""
    model.eval()
    tap = monitor.tap(f"epoch{epoch}", model.encoder.body)
    x, y = data.sample(32)
    y = y.to(device)
    model.encoder(x.to(device))
    onehot = F.one_hot(y, 4).float()
    means = onehot.t() @ tap.features / (onehot.sum(0)[:, None] + 1e-6)
    hit = (torch.cdist(tap.features, means).argmin(-1) == y).float().mean()
    torch_xla.sync()
    model.train()
    return hit.item(), tap.spread.item()


def train_epoch(model, data, opt, cfg, device):
    for _ in range(cfg.steps):
        a, b = data.views()
        loss = model(a.to(device), b.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        torch_xla.sync()
    return loss.item()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = xm.xla_device()
    model, data, monitor = SimSiam(cfg).to(device), Patterns(cfg), Monitor()
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr, weight_decay=1e-4)
    for epoch in range(cfg.epochs):
        loss = train_epoch(model, data, opt, cfg, device)
        acc, spread = probe(model, data, monitor, epoch, device)
        log.info("epoch %d loss %.3f probe %.3f spread %.3f", epoch, loss, acc, spread)


if __name__ == "__main__":
    main()
