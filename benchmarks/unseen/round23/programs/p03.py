"""Staged fine-tuning of a small forecaster, with weight averaging in the last stage.

stage 1: only the head
stage 2: head + upper block
stage 3: everything, stochastic weight averaging
"""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch_xla

CONTEXT, HORIZON, SERIES = 32, 8, 4
BATCH = 16
STAGES = [
    {"name": "head", "train": ["head"], "steps": 25, "lr": 5e-3, "swa": False},
    {"name": "upper", "train": ["head", "blocks.1"], "steps": 25, "lr": 2e-3, "swa": False},
    {"name": "full", "train": [""], "steps": 90, "lr": 1e-3, "swa": True},
]
EVAL_EVERY = 15
SWA_EVERY = 5


def make_series(n, rng):
    t = np.arange(n)
    cols = []
    for _ in range(SERIES):
        p, q = rng.uniform(10, 30), rng.uniform(40, 90)
        cols.append(np.sin(2 * np.pi * t / p) + 0.6 * np.cos(2 * np.pi * t / q) + 0.1 * rng.standard_normal(n))
    return torch.tensor(np.stack(cols, 1), dtype=torch.float32)


def windows(series, starts):
    x = torch.stack([series[s:s + CONTEXT] for s in starts])
    y = torch.stack([series[s + CONTEXT:s + CONTEXT + HORIZON] for s in starts])
    return x, y


class MixerBlock(nn.Module):
    def __init__(self, t, c):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.time = nn.Linear(t, t)
        self.chan = nn.Sequential(nn.Linear(c, 2 * c), nn.GELU(), nn.Linear(2 * c, c))

    def forward(self, x):
        x = x + self.time(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.chan(self.n2(x))


class Forecaster(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.embed = nn.Linear(SERIES, width)
        self.blocks = nn.ModuleList([MixerBlock(CONTEXT, width) for _ in range(2)])
        self.head = nn.Linear(CONTEXT * width, HORIZON * SERIES)

    def forward(self, x):
        h = self.embed(x)
        for b in self.blocks:
            h = b(h)
        return self.head(h.flatten(1)).view(-1, HORIZON, SERIES)


def set_trainable(model, prefixes):
    chosen = []
    for name, p in model.named_parameters():
        p.requires_grad_(any(name.startswith(k) for k in prefixes))
        p.grad = None
        if p.requires_grad:
            chosen.append(p)
    return chosen


class Averager:
    def __init__(self, model):
        self.model = copy.deepcopy(model)
        self.count = torch.zeros((), device=next(model.parameters()).device)

    @torch.no_grad()
    def update(self, model):
        self.count += 1
        for a, p in zip(self.model.parameters(), model.parameters()):
            a += (p - a) / self.count


@torch.no_grad()
def evaluate(model, batches, device):
    model.eval()
    total = torch.zeros((), device=device)
    for x, y in batches:
        total += (model(x) - y).abs().mean()
        torch_xla.sync()
    model.train()
    return total.item() / len(batches)


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    device = torch_xla.device()
    series = make_series(1200, rng)
    split = 900
    val = []
    for i in range(4):
        starts = range(split + i * 60, split + i * 60 + BATCH)
        x, y = windows(series, starts)
        val.append((x.to(device), y.to(device)))

    model = Forecaster().to(device)
    averager = None
    global_step = 0
    for stage in STAGES:
        opt = torch.optim.Adam(set_trainable(model, stage["train"]), lr=stage["lr"])
        if stage["swa"]:
            averager = Averager(model)
            torch_xla.sync()
        for i in range(1, stage["steps"] + 1):
            starts = rng.integers(0, split - CONTEXT - HORIZON, BATCH)
            x, y = windows(series, starts)
            x, y = x.to(device), y.to(device)
            opt.zero_grad()
            loss = nn.functional.smooth_l1_loss(model(x), y)
            loss.backward()
            opt.step()
            torch_xla.sync()
            global_step += 1
            if averager is not None and i % SWA_EVERY == 0:
                averager.update(model)
                torch_xla.sync()
            if global_step % EVAL_EVERY == 0:
                mae = evaluate(model, val, device)
                line = f"[{stage['name']}] {global_step} loss {loss.item():.4f} mae {mae:.4f}"
                if averager is not None:
                    line += f" mae(swa) {evaluate(averager.model, val, device):.4f}"
                print(line)


if __name__ == "__main__":
    main()
