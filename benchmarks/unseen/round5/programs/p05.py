"""Multi-task text encoder: one trunk, several heads, mixed mini-batches.

Every mini-batch holds the same number of examples of every task.
"""
import random
from collections import namedtuple
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

Example = namedtuple("Example", "task tokens target")

TASKS = {"sentiment": ("class", 3), "topic": ("class", 6), "similarity": ("score", 1),
         "toxicity": ("multi", 4)}


@dataclass
class MTConfig:
    vocab: int = 200
    seq: int = 12
    dim: int = 24
    per_task: int = 6
    steps: int = 30
    lr: float = 2e-3


class Corpus:
    def __init__(self, cfg, seed=0):
        self.cfg, self.rng = cfg, random.Random(seed)

    def example(self, task):
        kind, n = TASKS[task]
        tokens = [self.rng.randrange(1, self.cfg.vocab) for _ in range(self.cfg.seq)]
        s = sum(tokens)
        if kind == "class":
            target = s % n
        elif kind == "score":
            target = (s % 100) / 100.0
        else:
            target = [float((s >> i) & 1) for i in range(n)]
        return Example(task, tokens, target)

    def batches(self):
        while True:
            pool = [self.example(t) for t in TASKS for _ in range(self.cfg.per_task)]
            self.rng.shuffle(pool)
            yield pool


def collate(pool, device):
    groups = {}
    for ex in pool:
        tokens, targets = groups.setdefault(ex.task, ([], []))
        tokens.append(ex.tokens)
        targets.append(ex.target)
    return {task: (torch.tensor(tokens).to(device), torch.tensor(targets).to(device))
            for task, (tokens, targets) in groups.items()}


class Trunk(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.vocab, cfg.dim)
        self.mix = nn.Conv1d(cfg.dim, cfg.dim, 3, padding=1)
        self.norm = nn.LayerNorm(cfg.dim)

    def forward(self, tokens):
        x = self.emb(tokens)
        x = x + self.mix(x.transpose(1, 2)).transpose(1, 2).relu()
        return self.norm(x).mean(dim=1)


class MultiTask(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.trunk = Trunk(cfg)
        self.heads = nn.ModuleDict({t: nn.Linear(cfg.dim, n) for t, (_, n) in TASKS.items()})
        self.log_var = nn.ParameterDict({t: nn.Parameter(torch.zeros(())) for t in TASKS})

    def task_loss(self, task, tokens, target):
        out = self.heads[task](self.trunk(tokens))
        kind, _ = TASKS[task]
        if kind == "class":
            return F.cross_entropy(out, target)
        if kind == "score":
            return F.mse_loss(out.squeeze(-1), target)
        return F.binary_cross_entropy_with_logits(out, target)

    def forward(self, batch):
        losses = {task: self.task_loss(task, *data) for task, data in batch.items()}
        total = 0.0
        for task, loss in losses.items():
            total = total + loss * torch.exp(-self.log_var[task]) + self.log_var[task]
        return total, losses


def main():
    cfg = MTConfig()
    torch.manual_seed(0)
    device = torch_xla.device()
    model = MultiTask(cfg).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=cfg.lr, total_steps=cfg.steps, cycle_momentum=False)
    for step, pool in enumerate(Corpus(cfg).batches()):
        if step == cfg.steps:
            break
        batch = collate(pool, device)
        optimizer.zero_grad()
        total, losses = model(batch)
        total.backward()
        optimizer.step()
        schedule.step()
        torch_xla.sync()
        if step % 10 == 0:
            parts = " ".join(f"{t} {losses[t].item():.3f}" for t in sorted(losses))
            print(f"step {step:3d} total {total.item():.3f} | {parts}", flush=True)


if __name__ == "__main__":
    main()
