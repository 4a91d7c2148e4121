"""Bird-song clips with Accelerate: a spectrogram encoder is kept frozen first,
its last block is freed next, and the whole of it at the end."""
import random

import numpy as np
import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

CONFIG = {
    "mels": 12, "frames": 32, "species": 5, "width": 12, "batch": 12,
    "clips": 240, "val_clips": 48, "seed": 21, "label_smoothing": 0.05,
    "stages": [
        {"name": "head", "free": ["head"], "epochs": 1, "lr": 1e-2},
        {"name": "top", "free": ["head", "blocks.1"], "epochs": 2, "lr": 4e-3},
        {"name": "all", "free": ["head", "blocks", "stem"], "epochs": 2, "lr": 1e-3},
    ],
}


def make_clips(n, cfg, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, cfg["species"], n)
    t = np.arange(cfg["frames"])
    spec = rng.normal(0, 0.3, (n, cfg["mels"], cfg["frames"])).astype("float32")
    for i, s in enumerate(y):
        pitch = cfg["mels"] / 2 + 3 * np.sin(t * (s + 1) / 8 + rng.uniform(0, 6))
        spec[i, np.clip(pitch.astype(int), 0, cfg["mels"] - 1), t] += 1.5
    return TensorDataset(torch.from_numpy(spec), torch.from_numpy(y))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depth = nn.Conv1d(width, width, 5, padding=2, groups=width)
        self.norm = nn.GroupNorm(1, width)
        self.point = nn.Conv1d(width, width, 1)

    def forward(self, x):
        return x + self.point(nn.functional.gelu(self.norm(self.depth(x))))


class SongNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.stem = nn.Conv1d(cfg["mels"], cfg["width"], 3, stride=2, padding=1)
        self.blocks = nn.ModuleList([Block(cfg["width"]) for _ in range(2)])
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(2 * cfg["width"], cfg["species"]))

    def forward(self, spec):
        x = self.stem(spec)
        for block in self.blocks:
            x = block(x)
        return self.head(torch.cat([x.mean(-1), x.amax(-1)], dim=1))


def set_free(model, prefixes):
    chosen = []
    for name, p in model.named_parameters():
        p.requires_grad_(any(name.startswith(s) for s in prefixes))
        p.grad = None
        if p.requires_grad:
            chosen.append(p)
    return chosen


def evaluate(accelerator, model, loader):
    model.eval()
    right = total = 0
    for spec, label in loader:
        with torch.no_grad():
            pred = model(spec).argmax(-1)
        pred, label = accelerator.gather_for_metrics((pred, label))
        right += int((pred.cpu() == label.cpu()).sum())
        total += label.shape[0]
    model.train()
    return right / total


def run_stage(accelerator, stage, model, train_loader, val_loader, loss_fn):
    params = set_free(accelerator.unwrap_model(model), stage["free"])
    optimizer = torch.optim.AdamW(params, lr=stage["lr"], weight_decay=0.01)
    total = stage["epochs"] * len(train_loader)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=total)
    optimizer, scheduler = accelerator.prepare(optimizer, scheduler)
    for epoch in range(stage["epochs"]):
        losses = []
        for spec, label in train_loader:
            with accelerator.accumulate(model):
                loss = loss_fn(model(spec), label)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(params, 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            losses.append(loss.detach())
        mean = float(np.mean([v.item() for v in losses]))
        acc = evaluate(accelerator, model, val_loader)
        if accelerator.is_main_process:
            print(f"{stage['name']:>4s} epoch {epoch}: loss {mean:.4f} acc {acc:.3f} "
                  f"({sum(p.numel() for p in params)} free)")


def main():
    cfg = CONFIG
    set_seed(cfg["seed"])
    random.seed(cfg["seed"])
    accelerator = Accelerator(gradient_accumulation_steps=2)
    train = DataLoader(make_clips(cfg["clips"], cfg, 1), cfg["batch"], shuffle=True, drop_last=True)
    val = DataLoader(make_clips(cfg["val_clips"], cfg, 2), cfg["batch"])
    model, train, val = accelerator.prepare(SongNet(cfg), train, val)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=cfg["label_smoothing"])
    for stage in cfg["stages"]:
        run_stage(accelerator, stage, model, train, val, loss_fn)
    accelerator.end_training()


if __name__ == "__main__":
    main()
