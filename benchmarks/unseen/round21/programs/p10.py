"""Predict the remaining useful life of pumps from periodic sensor readings."""
import json
import random

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla

COLUMNS = ["pressure", "flow", "rpm", "vibration", "temp_in", "temp_out"]
CENTER = {name: 2.5 + i for i, name in enumerate(COLUMNS)}
SPREAD = 1.5
BATCH_SIZE = 8
STEPS = 40


def make_records(n, seed=3):
    """Readings as the gateway writes them: one JSON object per line."""
    rng = random.Random(seed)
    lines = []
    for _ in range(n):
        wear = rng.random()
        row = {}
        for i, name in enumerate(COLUMNS):
            value = 4.0 + i - 3.0 * wear + rng.gauss(0.0, 0.3)
            # the gateway drops the fraction when the sensor is idle
            row[name] = round(value) if rng.random() < 0.9 else round(value, 2)
        row["life"] = round(100.0 * (1.0 - wear), 1)
        lines.append(json.dumps(row))
    return lines


class ReadingStream:
    def __init__(self, lines, batch_size, seed=0):
        self.rows = [json.loads(line) for line in lines]
        self.batch_size = batch_size
        self.rng = random.Random(seed)

    def __iter__(self):
        while True:
            rows = self.rng.sample(self.rows, self.batch_size)
            columns = {name: torch.tensor([r[name] for r in rows]) for name in COLUMNS}
            target = torch.tensor([r["life"] for r in rows]) / 100.0
            yield columns, target


class LifeModel(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(len(COLUMNS), hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, columns):
        scaled = [(columns[name] - CENTER[name]) / SPREAD for name in COLUMNS]
        return self.net(torch.stack(scaled, dim=-1)).squeeze(-1)


def main():
    torch.manual_seed(0)
    device = torch_xla.device()
    model = LifeModel().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    stream = iter(ReadingStream(make_records(400), BATCH_SIZE))
    torch_xla.sync()

    for step in range(1, STEPS + 1):
        columns, target = next(stream)
        columns = {name: values.to(device) for name, values in columns.items()}
        target = target.to(device)

        optimizer.zero_grad()
        loss = F.smooth_l1_loss(model(columns), target)
        loss.backward()
        optimizer.step()
        torch_xla.sync()

        if step % 10 == 0:
            print(f"step {step:3d}  loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
