"""Short-term load forecasting with accelerate: patch transformer, pinball loss,
gradient accumulation, a validation pass per epoch.
"""
import math

import numpy as np
import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset

CONTEXT, HORIZON, PATCH = 96, 24, 8
QUANTILES = (0.1, 0.5, 0.9)


class LoadWindows(Dataset):
    def __init__(self, start, count, stride=5, seed=8):
        rng = np.random.default_rng(seed)
        hours = np.arange(6000)
        day = 0.6 * np.sin(2 * np.pi * hours / 24 - 1.2)
        week = 0.25 * np.where((hours // 24) % 7 < 5, 1.0, -1.0)
        drift = np.cumsum(rng.normal(0, 0.01, hours.size))
        self.series = (day + week + drift + 0.08 * rng.normal(size=hours.size)).astype(np.float32)
        self.offsets = [start + i * stride for i in range(count)]

    def __len__(self):
        return len(self.offsets)

    def __getitem__(self, i):
        o = self.offsets[i]
        x = self.series[o:o + CONTEXT]
        y = self.series[o + CONTEXT:o + CONTEXT + HORIZON]
        calendar = np.array([(o // 24) % 7, o % 24], dtype=np.int64)
        return {"x": x, "y": y, "calendar": calendar}


class PatchForecaster(nn.Module):
    def __init__(self, dim=40, depth=2, heads=4):
        super().__init__()
        self.patch = nn.Linear(PATCH, dim)
        self.dow = nn.Embedding(7, dim)
        self.hod = nn.Embedding(24, dim)
        self.pos = nn.Parameter(torch.randn(1, CONTEXT // PATCH, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.1,
                                           batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim * (CONTEXT // PATCH), HORIZON * len(QUANTILES))

    def forward(self, x, calendar):
        mean = x.mean(1, keepdim=True)
        std = x.std(1, keepdim=True) + 1e-3
        z = self.patch(((x - mean) / std).unflatten(1, (-1, PATCH)))
        z = z + self.pos + (self.dow(calendar[:, 0]) + self.hod(calendar[:, 1])).unsqueeze(1)
        out = self.head(self.body(z).flatten(1)).unflatten(1, (HORIZON, len(QUANTILES)))
        return out * std.unsqueeze(-1) + mean.unsqueeze(-1)


class Pinball(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("q", torch.tensor(QUANTILES))

    def forward(self, pred, y):
        err = y.unsqueeze(-1) - pred
        return torch.maximum(self.q * err, (self.q - 1) * err).mean()


def warm_cosine(total, warm):
    def factor(step):
        if step < warm:
            return (step + 1) / warm
        return 0.05 + 0.475 * (1 + math.cos(math.pi * (step - warm) / max(1, total - warm)))
    return factor


def train_epoch(acc, model, crit, loader, opt, sched):
    model.train()
    total = torch.zeros((), device=acc.device)
    for batch in loader:
        with acc.accumulate(model):
            loss = crit(model(batch["x"], batch["calendar"]), batch["y"])
            acc.backward(loss)
            if acc.sync_gradients:
                acc.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            opt.zero_grad()
        total = total + loss.detach()
    return total / len(loader)


@torch.no_grad()
def validate(acc, model, loader):
    model.eval()
    inside = torch.zeros((), device=acc.device)
    error = torch.zeros((), device=acc.device)
    seen = 0
    for batch in loader:
        pred = model(batch["x"], batch["calendar"])
        y = batch["y"]
        inside = inside + ((y >= pred[..., 0]) & (y <= pred[..., 2])).float().sum()
        error = error + (y - pred[..., 1]).abs().sum()
        seen += y.numel()
    return (error / seen).item(), (inside / seen).item()


def main():
    set_seed(61)
    acc = Accelerator(gradient_accumulation_steps=3, step_scheduler_with_optimizer=False)

    train = DataLoader(LoadWindows(0, 304), batch_size=16, shuffle=True)
    valid = DataLoader(LoadWindows(4200, 56), batch_size=16)
    model, crit = PatchForecaster(), Pinball().to(acc.device)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.02)
    epochs = 3
    sched = LambdaLR(opt, warm_cosine(epochs * len(train), 6))
    model, opt, train, valid, sched = acc.prepare(model, opt, train, valid, sched)

    for epoch in range(epochs):
        loss = train_epoch(acc, model, crit, train, opt, sched)
        mae, cover = validate(acc, model, valid)
        print(f"epoch {epoch} pinball {loss.item():.4f} "
              f"valid mae {mae:.4f} 80% band covers {cover:.2f} "
              f"lr {opt.param_groups[0]['lr']:.2e}")


if __name__ == "__main__":
    main()
