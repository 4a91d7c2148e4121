"""Click-through-rate model trained from hourly ad-log chunks."""
import io

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

ROWS = 128
COUNTERS = ["imps_1h", "imps_24h", "clicks_24h", "dwell_s", "scroll_px", "tabs_open"]
CATEGORICAL = {"advertiser": 200, "slot": 24, "device_model": 60}


def write_hour(rng):
    """One hour of log lines, as the collector would hand it over."""
    frame = pd.DataFrame({name: rng.integers(0, size, ROWS) for name, size in CATEGORICAL.items()})
    for name in COUNTERS:
        values = pd.Series(rng.poisson(30, ROWS)).astype("Int64")
        if rng.random() < 0.5:
            lost = rng.integers(0, ROWS, size=rng.integers(1, 5))
            values[lost] = pd.NA
        frame[name] = values
    score = 0.03 * (frame["slot"] - 12) + 0.002 * (frame["advertiser"] - 100)
    frame["clicked"] = (rng.random(ROWS) < 1 / (1 + np.exp(1.5 - score))).astype(int)
    return frame.to_csv(index=False)


class LogReader:
    def __init__(self, hours, seed):
        self.hours = hours
        self.rng = np.random.default_rng(seed)

    def __iter__(self):
        for _ in range(self.hours):
            frame = pd.read_csv(io.StringIO(write_hour(self.rng)))
            yield self.to_tensors(frame)

    @staticmethod
    def to_tensors(frame):
        counters = {c: torch.as_tensor(frame[c].fillna(0).to_numpy(copy=True)) for c in COUNTERS}
        cats = {c: torch.as_tensor(frame[c].to_numpy(copy=True)) for c in CATEGORICAL}
        label = torch.as_tensor(frame["clicked"].to_numpy(dtype=np.float32, copy=True))
        return counters, cats, label


class CTRNet(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.tables = nn.ModuleDict({k: nn.Embedding(n, dim) for k, n in CATEGORICAL.items()})
        width = dim * len(CATEGORICAL) + len(COUNTERS)
        self.deep = nn.Sequential(nn.Linear(width, 48), nn.ReLU(), nn.Linear(48, 1))
        self.scale = nn.Parameter(torch.ones(len(COUNTERS)))

    def forward(self, counters, cats):
        dense = torch.stack([torch.log1p(counters[c].float()) for c in COUNTERS], dim=1) * self.scale
        emb = torch.cat([self.tables[k](v) for k, v in cats.items()], dim=1)
        return self.deep(torch.cat([emb, dense], dim=1)).squeeze(1)


def to_device(batch, device):
    counters, cats, label = batch
    return (
        {k: v.to(device) for k, v in counters.items()},
        {k: v.to(device) for k, v in cats.items()},
        label.to(device),
    )


def train():
    torch.manual_seed(3)
    device = torch_xla.device()
    model = CTRNet().to(device)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    base_rate = torch.zeros((), device=device)

    for hour, batch in enumerate(LogReader(hours=36, seed=2024)):
        counters, cats, label = to_device(batch, device)
        logits = model(counters, cats)
        loss = F.binary_cross_entropy_with_logits(logits, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        base_rate = 0.95 * base_rate + 0.05 * label.mean()
        torch_xla.sync()
        if hour % 12 == 11:
            print(f"hour {hour + 1:3d}  logloss {loss.item():.4f}  ctr~{base_rate.item():.3f}")


if __name__ == "__main__":
    train()
