"""Remaining-useful-life regression for pumps from plant historian exports."""
import csv
import io
import random

import torch
import torch.nn as nn
import torch_xla
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, IterableDataset

TAGS = {
    "suction_bar": (2, 6),
    "discharge_bar": (18, 32),
    "flow_m3h": (40, 90),
    "bearing_c": (45, 95),
    "vibration_mm_s": (1, 9),
    "motor_amp": (60, 140),
}
TARGET = "rul_days"


def export_rows(n, seed):
    """Text as the historian writes it: values are rounded to the tag's deadband."""
    rng = random.Random(seed)
    buf = io.StringIO()
    out = csv.writer(buf)
    out.writerow(["pump", *TAGS, TARGET])
    for i in range(n):
        wear = rng.random()
        row = [f"P-{rng.randrange(100, 180)}"]
        for k, (lo, hi) in enumerate(TAGS.values()):
            value = lo + (hi - lo) * min(1.0, max(0.0, 0.6 * wear + 0.4 * rng.random()))
            if k == 4:
                row.append(f"{value:.2f}")
            else:
                fine = rng.random() < 0.03
                row.append(f"{value:.1f}" if fine else f"{value:.0f}")
        row.append(f"{120 * (1 - wear) + rng.gauss(0, 3):.1f}")
        out.writerow(row)
    return buf.getvalue()


def number(text):
    try:
        return int(text)
    except ValueError:
        return float(text)


class HistorianStream(IterableDataset):
    def __init__(self, text):
        self.text = text

    def __iter__(self):
        for record in csv.DictReader(io.StringIO(self.text)):
            record.pop("pump")
            yield {k: number(v) for k, v in record.items()}


def columns(records):
    return {k: torch.tensor([r[k] for r in records]) for k in (*TAGS, TARGET)}


class TagEncoder(nn.Module):
    """Scales each tag to its engineering range and stacks the result."""

    def __init__(self):
        super().__init__()
        lo, hi = zip(*TAGS.values())
        self.register_buffer("lo", torch.tensor(lo).float())
        self.register_buffer("span", torch.tensor(hi).float() - self.lo)

    def forward(self, batch):
        x = torch.stack([batch[t].float() for t in TAGS], dim=1)
        return 2 * (x - self.lo) / self.span - 1


class LifeNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.encode = TagEncoder()
        self.body = nn.Sequential(
            nn.Linear(len(TAGS), width), nn.Mish(),
            nn.Linear(width, width), nn.Mish(),
        )
        self.mu = nn.Linear(width, 1)
        self.log_sigma = nn.Linear(width, 1)

    def forward(self, batch):
        h = self.body(self.encode(batch))
        return self.mu(h).squeeze(1), self.log_sigma(h).squeeze(1).clamp(-4, 3)


def gaussian_nll(mu, log_sigma, target):
    z = (target - mu) * torch.exp(-log_sigma)
    return (log_sigma + 0.5 * z * z).mean()


class ScoreBoard:
    def __init__(self, device):
        self.device = device
        self.reset()

    def reset(self):
        self.loss = torch.zeros((), device=self.device)
        self.abs_err = torch.zeros((), device=self.device)
        self.n = 0

    def update(self, loss, mu, target):
        self.loss += loss.detach()
        self.abs_err += (mu.detach() - target).abs().mean()
        self.n += 1

    def line(self):
        return f"nll {self.loss.item() / self.n:.3f}  mae {100 * self.abs_err.item() / self.n:.1f} d"


def train(passes=2, batch=16):
    torch.manual_seed(41)
    device = torch_xla.device()
    text = export_rows(batch * 40, seed=41)
    loader = DataLoader(HistorianStream(text), batch_size=batch, collate_fn=columns)
    model = LifeNet().to(device)
    opt = torch.optim.NAdam(model.parameters(), lr=3e-3)
    board = ScoreBoard(device)

    for n in range(passes):
        for records in loader:
            with torch_xla.step():
                records = {k: v.to(device) for k, v in records.items()}
                target = records[TARGET] / 100
                mu, log_sigma = model(records)
                loss = gaussian_nll(mu, log_sigma, target)
                opt.zero_grad()
                loss.backward()
                opt.step()
                board.update(loss, mu, target)
        xm.master_print(f"pass {n}: {board.line()}")
        board.reset()
    return model


if __name__ == "__main__":
    train()
