"""Multi-task regression for greenhouse control: one shared trunk, one head per target."""
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

TASKS = {
    "growth": ("mse", 1.0),
    "water": ("huber", 0.5),
    "light": ("mse", 0.8),
    "nitrogen": ("huber", 0.7),
    "mould": ("bce", 0.6),
}


@dataclass
class Config:
    features: int = 12
    hidden: int = 24
    batch_size: int = 16
    steps: int = 32
    lr: float = 0.05
    log_every: int = 8
    seed: int = 17


def make_data(cfg, n=256):
    g = torch.Generator().manual_seed(cfg.seed)
    x = torch.randn(n, cfg.features, generator=g)
    targets = {}
    for name, (kind, _) in TASKS.items():
        w = torch.randn(cfg.features, generator=g) / cfg.features**0.5
        y = torch.tanh(x @ w)
        targets[name] = (y > 0).float() if kind == "bce" else y
    return x, targets


class GreenhouseNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(cfg.features, cfg.hidden),
            nn.ReLU(),
        )
        self.heads = nn.ModuleDict({name: nn.Linear(cfg.hidden, 1) for name in TASKS})

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h).squeeze(-1) for name, head in self.heads.items()}


LOSSES = {
    "mse": F.mse_loss,
    "huber": F.smooth_l1_loss,
    "bce": F.binary_cross_entropy_with_logits,
}


class MultiTaskTrainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch_xla.device()
        self.rng = random.Random(cfg.seed)
        self.model = GreenhouseNet(cfg).to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=cfg.lr, momentum=0.9)
        self.x, self.targets = make_data(cfg)

    def batch(self):
        idx = torch.tensor(self.rng.sample(range(len(self.x)), self.cfg.batch_size))
        x = self.x[idx].to(self.device)
        return x, {name: t[idx].to(self.device) for name, t in self.targets.items()}

    def combined_loss(self, outputs, targets):
        # no task should always come first
        names = list(TASKS)
        self.rng.shuffle(names)
        total = 0.0
        for name in names:
            kind, weight = TASKS[name]
            total = total + weight * LOSSES[kind](outputs[name], targets[name])
        return total

    def train_step(self):
        x, targets = self.batch()
        self.optimizer.zero_grad()
        loss = self.combined_loss(self.model(x), targets)
        loss.backward()
        self.optimizer.step()
        torch_xla.sync()
        return loss

    def fit(self):
        for step in range(1, self.cfg.steps + 1):
            loss = self.train_step()
            if step % self.cfg.log_every == 0:
                print(f"step {step:3d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    MultiTaskTrainer(Config()).fit()
