"""Sleep staging from two EEG channels: 1-D ConvNeXt epochs encoder, context over the night window."""
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    channels: int = 2
    dim: int = 16
    depth: int = 2
    stages: int = 5
    window: int = 5
    samples: int = 120
    batch: int = 4
    lr: float = 1e-2
    weight_decay: float = 0.05
    aux_weight: float = 0.3
    steps: int = 4


class ChannelNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x):
        mu = x.mean(1, keepdim=True)
        var = (x - mu).pow(2).mean(1, keepdim=True)
        x = (x - mu) * torch.rsqrt(var + self.eps)
        return x * self.weight[:, None] + self.bias[:, None]


class NextBlock(nn.Module):
    def __init__(self, dim, scale=0.1):
        super().__init__()
        self.depthwise = nn.Conv1d(dim, dim, 7, padding=3, groups=dim)
        self.norm = ChannelNorm(dim)
        self.up = nn.Conv1d(dim, 2 * dim, 1)
        self.down = nn.Conv1d(2 * dim, dim, 1)
        self.gamma = nn.Parameter(scale * torch.ones(dim))

    def forward(self, x):
        y = self.norm(self.depthwise(x))
        y = self.down(F.relu(self.up(y)))
        return x + self.gamma[:, None] * y


class Encoder(nn.Module):
    """(n, channels, samples) -> (n, dim)"""

    def __init__(self, cfg):
        super().__init__()
        self.stem = nn.Conv1d(cfg.channels, cfg.dim, 10, stride=5)
        self.blocks = nn.ModuleList([NextBlock(cfg.dim) for _ in range(cfg.depth)])

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return x.mean(-1)


class SleepNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.encoder = Encoder(cfg)
        self.aux = nn.Linear(cfg.dim, cfg.stages)
        self.context = nn.Conv1d(cfg.dim, cfg.dim, 3, padding=1)
        self.head = nn.Linear(cfg.dim, cfg.stages)

    def forward(self, x):
        b, w = x.shape[:2]
        h = self.encoder(x.flatten(0, 1)).view(b, w, -1)
        ctx = F.relu(self.context(h.transpose(1, 2))).transpose(1, 2)
        return self.head(h + ctx), self.aux(h)


def build_optimizer(model, cfg):
    decay, rest = [], []
    for p in model.parameters():
        (decay if p.ndim > 1 else rest).append(p)
    groups = [{"params": decay, "weight_decay": cfg.weight_decay}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=cfg.lr, momentum=0.9, foreach=False)


def nights(cfg, rng):
    while True:
        x = rng.normal(size=(cfg.batch, cfg.window, cfg.channels, cfg.samples)).astype(np.float32)
        y = rng.integers(0, cfg.stages, (cfg.batch, cfg.window))
        yield torch.from_numpy(x), torch.from_numpy(y)


def main():
    cfg = Config()
    torch.manual_seed(8)
    device = xm.xla_device()
    model = SleepNet(cfg).to(device)
    opt = build_optimizer(model, cfg)
    weight = torch.tensor([1.0, 2.5, 0.8, 1.3, 1.2]).to(device)
    confusion = torch.zeros(cfg.stages, cfg.stages, device=device)
    torch_xla.sync()
    for step, (x, y) in zip(range(cfg.steps), nights(cfg, np.random.default_rng(9))):
        x, y = x.to(device), y.to(device)
        logits, aux = model(x)
        main_loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), weight=weight)
        aux_loss = F.cross_entropy(aux.flatten(0, 1), y.flatten(), weight=weight)
        loss = main_loss + cfg.aux_weight * aux_loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            pred = F.one_hot(logits.argmax(-1).flatten(), cfg.stages).float()
            true = F.one_hot(y.flatten(), cfg.stages).float()
            confusion += true.T @ pred
        torch_xla.sync()
        print(step, loss.item(), confusion.diagonal().sum().item() / confusion.sum().item())


if __name__ == "__main__":
    main()
