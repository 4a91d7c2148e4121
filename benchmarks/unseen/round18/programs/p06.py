"""Fault classifier for wind turbine gearboxes from four sensor groups.

Sensors fail in the field, hence the fused representation has to survive missing
groups: during training each group is switched off at random (modality dropout).
"""
from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

import numpy as np
import torch
from torch import nn
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Config:
    groups: dict = field(default_factory=lambda: {
        "vibration": 24, "acoustic": 16, "oil": 6, "scada": 10})
    width: int = 20
    classes: int = 4
    batch: int = 32
    steps: int = 70
    warmup: int = 10
    lr: float = 4e-3
    drop_group: float = 0.3
    eval_every: int = 14
    seed: int = 8


class GroupEncoder(nn.Module):
    def __init__(self, n_in, width):
        super().__init__()
        self.norm = nn.LayerNorm(n_in)
        self.lin = nn.Linear(n_in, width)

    def forward(self, x):
        return torch.relu(self.lin(self.norm(x)))


class FusionNet(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.names = list(cfg.groups)
        self.encoders = nn.ModuleDict({n: GroupEncoder(d, cfg.width) for n, d in cfg.groups.items()})
        self.head = nn.Linear(cfg.width, cfg.classes)
        self.drop_group = cfg.drop_group
        self.host_rng = np.random.default_rng(cfg.seed)

    def draw_gates(self):
        gates = (self.host_rng.random(len(self.names)) >= self.drop_group).astype(float)
        if gates.sum() == 0:
            gates[self.host_rng.integers(len(gates))] = 1.0
        return gates.tolist()

    def forward(self, batch):
        gates = self.draw_gates() if self.training else [1.0] * len(self.names)
        fused = sum(g * self.encoders[n](batch[n]) for g, n in zip(gates, self.names))
        return self.head(fused)


class TurbineData:
    def __init__(self, cfg: Config, seed: int):
        self.rng = np.random.default_rng(seed)
        proto = np.random.default_rng(99)
        self.cfg = cfg
        self.centres = {n: proto.standard_normal((cfg.classes, d)) for n, d in cfg.groups.items()}

    def batch(self, n, device):
        y = self.rng.integers(0, self.cfg.classes, n)
        out = {k: torch.as_tensor(c[y] + 1.3 * self.rng.standard_normal((n, c.shape[1])),
                                  dtype=torch.float32).to(device)
               for k, c in self.centres.items()}
        return out, torch.as_tensor(y).to(device)


class Trainer:
    def __init__(self, cfg: Config):
        self.cfg = cfg
        torch.manual_seed(cfg.seed)
        self.device = torch_xla.device()
        self.net = FusionNet(cfg).to(self.device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=cfg.lr, momentum=0.9, nesterov=True)
        self.sched = torch.optim.lr_scheduler.LambdaLR(
            self.opt, lambda s: min(10.0, (s + 1) / cfg.warmup * 10.0))
        self.train_data = TurbineData(cfg, 1)
        self.valid = [TurbineData(cfg, 2).batch(96, self.device) for _ in range(2)]
        self.recent = []

    def step(self):
        x, y = self.train_data.batch(self.cfg.batch, self.device)
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.opt.zero_grad()
        loss.backward()
        xm.optimizer_step(self.opt)
        xm.mark_step()
        self.recent.append(loss.detach())
        self.sched.step()

    @torch.no_grad()
    def validate(self):
        self.net.eval()
        good, per_class = 0.0, []
        for x, y in self.valid:
            pred = self.net(x).argmax(1)
            hits = torch.stack([((pred == c) & (y == c)).sum() for c in range(self.cfg.classes)])
            xm.mark_step()
            per_class.append(hits.cpu().numpy())
        self.net.train()
        total = np.sum(per_class, axis=0)
        return total.sum() / sum(len(y) for _, y in self.valid), total.tolist()

    def fit(self):
        print(json.dumps(asdict(self.cfg)))
        for step in range(1, self.cfg.steps + 1):
            self.step()
            if step % self.cfg.eval_every == 0:
                mean = np.mean([v.item() for v in self.recent])
                self.recent.clear()
                acc, hits = self.validate()
                print(f"step {step:3d} loss {mean:.3f} acc {acc:.3f} hits {hits}")


if __name__ == "__main__":
    Trainer(Config()).fit()
