"""Tabular transformer for next-day load forecasting (accelerate, gradient accumulation)."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

ACCUM = 4
BATCH = 16
EPOCHS = 4
HISTORY, HORIZON, STATIONS = 48, 24, 6


def synth_load(days, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(days * 24)
    series = []
    for s in range(STATIONS):
        daily = np.sin(2 * np.pi * (t % 24) / 24 + 0.3 * s)
        weekly = 0.4 * np.cos(2 * np.pi * (t % 168) / 168)
        series.append(1.5 + daily + weekly + 0.15 * rng.standard_normal(len(t)))
    return np.stack(series).astype(np.float32)


def windows(load, stride):
    xs, st, hr, ys = [], [], [], []
    for s in range(STATIONS):
        for a in range(0, load.shape[1] - HISTORY - HORIZON, stride):
            xs.append(load[s, a:a + HISTORY])
            ys.append(load[s, a + HISTORY:a + HISTORY + HORIZON])
            st.append(s)
            hr.append(a % 24)
    return TensorDataset(torch.from_numpy(np.stack(xs)), torch.tensor(st),
                         torch.tensor(hr), torch.from_numpy(np.stack(ys)))


class LoadForecaster(nn.Module):
    def __init__(self, width=24, patch=6, depth=1, heads=2):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(patch, width)
        self.station = nn.Embedding(STATIONS, width)
        self.hour = nn.Embedding(24, width)
        self.pos = nn.Parameter(0.02 * torch.randn(HISTORY // patch, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, 2 * width, dropout=0.0, activation="gelu",
            batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2 * HORIZON)

    def forward(self, x, station, hour):
        mu = x.mean(dim=1, keepdim=True)
        h = self.embed((x - mu).unflatten(1, (-1, self.patch))) + self.pos
        cond = (self.station(station) + self.hour(hour)).unsqueeze(1)
        h = self.encoder(torch.cat([cond, h], dim=1))[:, 0]
        mean, log_scale = self.head(h).chunk(2, dim=-1)
        return mean + mu, log_scale.clamp(-4.0, 2.0)


def laplace_nll(mean, log_scale, target):
    return (log_scale + (target - mean).abs() * torch.exp(-log_scale)).mean()


def lr_at(update, total, warmup=3):
    if update < warmup:
        return (update + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (update - warmup) / max(1, total - warmup)))


def evaluate(model, loader):
    model.eval()
    abs_err, count = 0.0, 0
    with torch.no_grad():
        for x, station, hour, y in loader:
            mean, _ = model(x, station, hour)
            abs_err += F.l1_loss(mean, y, reduction="sum").item()
            count += y.numel()
            torch_xla.sync()
    model.train()
    return abs_err / count


def main():
    set_seed(99)
    accelerator = Accelerator(gradient_accumulation_steps=ACCUM)

    train_loader = DataLoader(windows(synth_load(22, 0), 8), batch_size=BATCH, shuffle=True)
    val_loader = DataLoader(windows(synth_load(9, 1), 24), batch_size=BATCH)
    model = LoadForecaster().to(accelerator.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    total = EPOCHS * math.ceil(len(train_loader) / ACCUM)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda u: lr_at(u, total))
    model, optimizer, train_loader, val_loader = accelerator.prepare(
        model, optimizer, train_loader, val_loader)

    update = 0
    for epoch in range(EPOCHS):
        model.train()
        seen = torch.zeros((), device=accelerator.device)
        for x, station, hour, y in train_loader:
            with accelerator.accumulate(model):
                mean, log_scale = model(x, station, hour)
                loss = laplace_nll(mean, log_scale, y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    update += 1
                optimizer.step()
                if accelerator.sync_gradients:
                    scheduler.step()
                optimizer.zero_grad()
            seen += loss.detach()
            torch_xla.sync()
        mae = evaluate(model, val_loader)
        accelerator.print(
            f"epoch {epoch} updates {update} nll {seen.item() / len(train_loader):.4f} "
            f"val mae {mae:.4f} lr {scheduler.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
