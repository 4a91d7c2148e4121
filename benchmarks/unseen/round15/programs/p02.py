"""In-hospital mortality from ICU chart series with a temporal convolution reader."""
import logging

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
import torch_xla.core.xla_model as xm
import torch_xla

log = logging.getLogger("icu")
HORIZON = 18          # hours kept per stay
CHANNELS = 9          # HR, MAP, SpO2, RR, Temp, lactate, creatinine, GCS, urine


class StayDataset(Dataset):
    """One row per ICU stay; series are cut at HORIZON and right-padded."""

    def __init__(self, n_stays, seed):
        rng = np.random.default_rng(seed)
        self.items = []
        for _ in range(n_stays):
            hours = int(rng.integers(6, HORIZON + 1))
            severity = rng.normal()
            walk = np.cumsum(rng.normal(0, 0.25, (hours, CHANNELS)), axis=0)
            series = np.zeros((HORIZON, CHANNELS), dtype=np.float32)
            series[:hours] = walk + 0.4 * severity
            static = np.array([rng.normal(), rng.integers(0, 2), severity * 0.3],
                              dtype=np.float32)
            died = np.float32(severity + 0.5 * rng.normal() > 0.6)
            self.items.append((series, hours, static, died))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(stays):
    series, hours, static, died = zip(*stays)
    return {
        "series": torch.from_numpy(np.stack(series)),
        "hours": hours,
        "static": torch.from_numpy(np.stack(static)),
        "died": torch.tensor(np.array(died)),
    }


class ChartReader(nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.inp = nn.Linear(CHANNELS, hidden)
        self.tcn = nn.ModuleList(
            nn.Conv1d(hidden, hidden, 3, dilation=d) for d in (1, 3))
        self.static = nn.Linear(3, hidden)
        self.out = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.GELU(),
                                 nn.Linear(hidden, 1))

    def forward(self, series, hours, static):
        x = torch.tanh(self.inp(series)).transpose(1, 2)
        for conv in self.tcn:
            past = 2 * conv.dilation[0]
            x = x + F.gelu(conv(F.pad(x, (past, 0))))
        states = x.transpose(1, 2)
        last = torch.stack([states[row, n - 1] for row, n in enumerate(hours)])
        h = torch.cat([last, self.static(static)], dim=1)
        return self.out(h).squeeze(1)


def put(batch, device):
    moved = {k: v.to(device) for k, v in batch.items() if k != "hours"}
    moved["hours"] = batch["hours"]
    return moved


class Mean:
    def __init__(self):
        self.values = []

    def add(self, v):
        self.values.append(v)

    def pop(self):
        out = torch.stack(self.values).mean().item()
        self.values.clear()
        return out


def fit(model, loader, device, epochs, pos_weight):
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(
        opt, max_lr=6e-3, total_steps=epochs * len(loader))
    pos_weight = torch.tensor(pos_weight, device=device)
    meter = Mean()
    for epoch in range(epochs):
        model.train()
        for batch in loader:
            batch = put(batch, device)
            logit = model(batch["series"], batch["hours"], batch["static"])
            loss = F.binary_cross_entropy_with_logits(
                logit, batch["died"], pos_weight=pos_weight)
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            xm.optimizer_step(opt, barrier=True)
            sched.step()
            meter.add(loss.detach())
        log.info("epoch %d  bce %.4f  lr %.5f", epoch, meter.pop(),
                 sched.get_last_lr()[0])


def main():
    logging.basicConfig(level=logging.INFO, format="%(name)s | %(message)s",
                        force=True)
    torch.manual_seed(3)
    device = torch_xla.device()
    data = StayDataset(n_stays=64, seed=3)
    loader = DataLoader(data, batch_size=8, shuffle=True, drop_last=True,
                        collate_fn=collate)
    died = sum(float(item[3]) for item in data.items)
    model = ChartReader().to(device)
    fit(model, loader, device, epochs=3,
        pos_weight=(len(data) - died) / max(died, 1.0))
    torch_xla.sync()


if __name__ == "__main__":
    main()
