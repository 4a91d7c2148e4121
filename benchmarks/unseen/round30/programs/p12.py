# seq2seq forecaster for hourly load curves
import random

import numpy as np
import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, Dataset

CFG = dict(
    n_series=352,
    past=24,
    horizon=5,
    hidden=16,
    batch=16,
    epochs=1,
    lr=2e-3,
    tf_start=1.0,
    tf_end=0.2,
)


class LoadCurves(Dataset):
    def __init__(self, n, past, horizon, seed=0):
        g = np.random.default_rng(seed)
        t = np.arange(past + horizon)
        phase = g.uniform(0, 24, (n, 1))
        level = g.uniform(0.5, 2.0, (n, 1))
        self.x = (level * (1 + 0.6 * np.sin(2 * np.pi * (t + phase) / 24)) + 0.05 * g.standard_normal((n, len(t)))).astype("float32")
        self.past = past

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        row = torch.from_numpy(self.x[i]).unsqueeze(-1)
        return row[: self.past], row[self.past:]


class Encoder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.conv = nn.Conv1d(1, hidden, 5, stride=2, padding=2)
        self.fc = nn.Linear(hidden, hidden)

    def forward(self, x):
        h = torch.relu(self.conv(x.transpose(1, 2)))
        return torch.tanh(self.fc(h.mean(-1)))


class Forecaster(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.enc = Encoder(cfg["hidden"])
        self.cell = nn.GRUCell(1, cfg["hidden"])
        self.out = nn.Linear(cfg["hidden"], 1)
        self.horizon = cfg["horizon"]

    def forward(self, past, future=None, tf_ratio=0.0):
        h = self.enc(past)
        y = past[:, -1]
        preds = []
        for t in range(self.horizon):
            h = self.cell(y, h)
            y = self.out(h)
            preds.append(y)
            if future is not None and random.random() < tf_ratio:
                y = future[:, t]
        return torch.stack(preds, 1)


def tf_ratio_at(step, total, cfg):
    frac = step / max(1, total - 1)
    return cfg["tf_start"] + frac * (cfg["tf_end"] - cfg["tf_start"])


def train(cfg):
    random.seed(11)
    torch.manual_seed(11)
    device = xm.xla_device()
    model = Forecaster(cfg).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"])
    ds = LoadCurves(cfg["n_series"], cfg["past"], cfg["horizon"])
    dl = DataLoader(ds, batch_size=cfg["batch"], shuffle=True, drop_last=True)
    loader = pl.MpDeviceLoader(dl, device)
    total = cfg["epochs"] * len(dl)
    step = 0
    running = torch.zeros((), device=device)
    for epoch in range(cfg["epochs"]):
        model.train()
        for past, future in loader:
            ratio = tf_ratio_at(step, total, cfg)
            pred = model(past, future, ratio)
            loss = nn.functional.smooth_l1_loss(pred, future)
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            running = 0.95 * running + 0.05 * loss.detach()
            step += 1
            if step % 5 == 0:
                xm.add_step_closure(lambda s, r, v: print(f"step {s} tf {r:.2f} loss {v.item():.4f}"), args=(step, ratio, running))


if __name__ == "__main__":
    train(CFG)
