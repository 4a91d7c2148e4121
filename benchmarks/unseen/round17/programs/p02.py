"""Fine-grained land-use classifier trained with micro-batches and an averaged copy.

The optimizer moves after every fourth micro-batch. The averaged weights are
what we validate and what is written to disk.
"""
from __future__ import annotations

import copy
import os
import tempfile
from dataclasses import dataclass

import torch
from torch import nn
import torch_xla
import torch_xla.core.xla_model as xm


@dataclass
class Settings:
    bands: int = 6
    side: int = 12
    classes: int = 7
    micro: int = 16
    accumulate: int = 4
    updates: int = 24
    lr: float = 2e-3
    clip: float = 1.0
    ema_top: float = 0.995
    validate_every: int = 6
    save_every: int = 12


class TileNet(nn.Module):
    def __init__(self, s: Settings):
        super().__init__()
        self.stem = nn.Conv2d(s.bands, 16, 3, padding=1)
        self.mix = nn.Conv2d(16, 16, 3, padding=1, groups=4)
        self.norm = nn.GroupNorm(4, 16)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(16, s.classes)

    def forward(self, x):
        h = torch.relu(self.stem(x))
        h = h + torch.relu(self.norm(self.mix(h)))
        return self.out(self.drop(h.mean((2, 3))))


class Averaged:
    """Exponential average of the weights with the usual ramp at the start."""

    def __init__(self, model: nn.Module, top: float):
        self.module = copy.deepcopy(model).eval()
        self.module.requires_grad_(False)
        self.top = top
        self.updates = 0

    @torch.no_grad()
    def update(self, model: nn.Module):
        self.updates += 1
        decay = min(self.top, (1 + self.updates) / (10 + self.updates))
        for avg, cur in zip(self.module.parameters(), model.parameters()):
            avg.lerp_(cur, 1.0 - decay)


def tiles(s: Settings, seed: int):
    gen = torch.Generator().manual_seed(seed)
    centers = torch.randn(s.classes, s.bands, 1, 1, generator=torch.Generator().manual_seed(1))
    while True:
        y = torch.randint(0, s.classes, (s.micro,), generator=gen)
        x = centers[y] + torch.randn(s.micro, s.bands, s.side, s.side, generator=gen)
        yield x, y


@torch.no_grad()
def validate(module: nn.Module, batches) -> float:
    good = torch.zeros((), device=batches[0][0].device)
    total = 0
    for x, y in batches:
        good += (module(x).argmax(-1) == y).sum()
        total += y.numel()
    return good.item() / total


def main():
    s = Settings()
    torch.manual_seed(0)
    device = torch_xla.device()
    model = TileNet(s).to(device)
    averaged = Averaged(model, s.ema_top)
    opt = torch.optim.AdamW(model.parameters(), lr=s.lr, weight_decay=0.01)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=2 * s.updates)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.05)

    held = tiles(s, 99)
    val = [tuple(t.to(device) for t in next(held)) for _ in range(3)]
    torch_xla.sync()

    stream = tiles(s, 3)
    out_dir = tempfile.mkdtemp(prefix="tiles_")
    for update in range(1, s.updates + 1):
        for part in range(s.accumulate):
            x, y = (t.to(device) for t in next(stream))
            loss = loss_fn(model(x), y) / s.accumulate
            loss.backward()
            if part + 1 < s.accumulate:
                torch_xla.sync()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), s.clip)
        opt.step()
        opt.zero_grad()
        averaged.update(model)
        torch_xla.sync()
        sched.step()

        if update % 3 == 0:
            xm.master_print(f"update {update:3d} loss {loss.item() * s.accumulate:.4f} "
                            f"grad {norm.item():.3f} lr {sched.get_last_lr()[0]:.2e}")
        if update % s.validate_every == 0:
            xm.master_print(f"update {update:3d} accuracy {validate(averaged.module, val):.3f}")
        if update % s.save_every == 0:
            xm.save({"ema": averaged.module.state_dict(), "update": update},
                    os.path.join(out_dir, f"ema_{update}.pt"))


if __name__ == "__main__":
    main()
