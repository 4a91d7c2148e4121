"""Shared encoder with three task heads trained on mixed batches from three corpora."""
import logging
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
import torch_xla.core.xla_model as xm

logging.basicConfig(force=True, level=logging.INFO, format="%(message)s")
log = logging.getLogger("multitask")


@dataclass
class TaskSpec:
    name: str
    kind: str
    outputs: int
    weight: float


@dataclass
class Config:
    seed: int = 17
    features: int = 20
    hidden: int = 32
    batch_size: int = 8
    steps: int = 30
    lr: float = 1e-3
    log_every: int = 10


TASKS = [TaskSpec("topic", "class", 4, 0.7), TaskSpec("quality", "regress", 1, 0.4),
         TaskSpec("flags", "multilabel", 5, 0.9)]


class Corpus:
    def __init__(self, spec, cfg):
        self.spec = spec
        self.g = torch.Generator().manual_seed(cfg.seed + len(spec.name))
        self.w = torch.randn(cfg.features, spec.outputs, generator=self.g)
        self.cfg = cfg

    def next_batch(self):
        x = torch.randn(self.cfg.batch_size, self.cfg.features, generator=self.g)
        score = x @ self.w
        if self.spec.kind == "class":
            return x, score.argmax(-1)
        if self.spec.kind == "multilabel":
            return x, (score > 0).float()
        return x, torch.tanh(score)


class MixedStream:
    """One batch of every corpus a step; no corpus always goes first."""

    def __init__(self, corpora, steps, seed):
        self.corpora = corpora
        self.steps = steps
        self.rng = random.Random(seed)

    def __iter__(self):
        for _ in range(self.steps):
            names = list(self.corpora)
            self.rng.shuffle(names)
            yield {name: self.corpora[name].next_batch() for name in names}


class MultiTask(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(cfg.features, cfg.hidden), nn.GELU(), nn.LayerNorm(cfg.hidden))
        self.heads = nn.ModuleDict({t.name: nn.Linear(cfg.hidden, t.outputs) for t in TASKS})

    def forward(self, x, task):
        return self.heads[task](self.trunk(x))


def task_loss(spec, out, target):
    if spec.kind == "class":
        return F.cross_entropy(out, target)
    if spec.kind == "multilabel":
        return F.binary_cross_entropy_with_logits(out, target)
    return F.mse_loss(out, target)


def train_step(model, batches, opt, device, specs):
    opt.zero_grad()
    parts = {}
    total = 0.0
    for name, (x, y) in batches.items():
        parts[name] = task_loss(specs[name], model(x.to(device), name), y.to(device))
        total = total + specs[name].weight * parts[name]
    total.backward()
    opt.step()
    torch_xla.sync()
    return {k: v.detach() for k, v in parts.items()}


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    device = xm.xla_device()
    specs = {t.name: t for t in TASKS}
    stream = MixedStream({t.name: Corpus(t, cfg) for t in TASKS}, cfg.steps, cfg.seed)
    model = MultiTask(cfg).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    for step, batches in enumerate(stream):
        parts = train_step(model, batches, opt, device, specs)
        if (step + 1) % cfg.log_every == 0:
            log.info("step %d %s", step + 1, " ".join(f"{n}={parts[n].item():.3f}" for n in sorted(parts)))


if __name__ == "__main__":
    main()
