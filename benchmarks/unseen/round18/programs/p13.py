"""Product matching: title encoder against slowly moving category centres.

The centres follow the category embedding table at a low rate, so that the
targets of the matcher do not jump while the table is being trained.
"""
from __future__ import annotations

import dataclasses
import json
import pathlib
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_xla


@dataclasses.dataclass(frozen=True)
class Options:
    vocab: int = 90
    title_len: int = 10
    categories: int = 9
    dim: int = 16
    batch: int = 24
    steps: int = 36
    drift: float = 0.1
    temperature: float = 0.2
    lr: float = 5e-3
    report_every: int = 6
    validate_every: int = 12


class TitleEncoder(nn.Module):
    def __init__(self, o: Options):
        super().__init__()
        self.words = nn.Embedding(o.vocab, o.dim)
        self.mix = nn.GRU(o.dim, o.dim, batch_first=True)
        self.out = nn.Linear(o.dim, o.dim)

    def forward(self, ids):
        h, _ = self.mix(self.words(ids))
        return F.normalize(self.out(h.mean(1)), dim=-1)


class CentreBank(nn.Module):
    """Category table plus the slow copy that the matcher is scored against."""

    def __init__(self, o: Options):
        super().__init__()
        self.table = nn.Embedding(o.categories, o.dim)
        self.drift = o.drift
        self.slow = None

    def advance(self):
        if self.slow is None:
            self.slow = self.table.weight.clone()
        self.slow = torch.lerp(self.slow, self.table.weight, self.drift)
        return self.slow

    def scores(self, z, temperature):
        centres = self.advance() if self.training else self.slow
        return z @ centres.t() / temperature


class Matcher(nn.Module):
    def __init__(self, o: Options):
        super().__init__()
        self.o = o
        self.encoder = TitleEncoder(o)
        self.bank = CentreBank(o)

    def forward(self, ids):
        return self.bank.scores(self.encoder(ids), self.o.temperature)


class Catalogue:
    def __init__(self, o: Options, seed: int):
        self.o = o
        self.g = torch.Generator().manual_seed(seed)

    def batch(self):
        o = self.o
        label = torch.randint(0, o.categories, (o.batch,), generator=self.g)
        noise = torch.randint(0, o.vocab, (o.batch, o.title_len), generator=self.g)
        typical = label[:, None] * 10 + torch.randint(0, 10, (o.batch, o.title_len), generator=self.g)
        keep = torch.rand(o.batch, o.title_len, generator=self.g) < 0.6
        return torch.where(keep, typical, noise), label


class Journal:
    def __init__(self, where: pathlib.Path):
        self.where = where
        self.rows: list[dict] = []

    def add(self, **row):
        self.rows.append(row)
        print(" ".join(f"{k}={v}" for k, v in row.items()))

    def close(self):
        self.where.write_text(json.dumps(self.rows))


def validate(model, data, device, rounds=2):
    model.eval()
    right = 0
    with torch.no_grad():
        for _ in range(rounds):
            ids, label = data.batch()
            guess = model(ids.to(device)).argmax(-1)
            torch_xla.sync()
            right += int((guess.cpu() == label).sum())
    model.train()
    return right / (rounds * data.o.batch)


def train(o: Options):
    torch.manual_seed(3)
    device = torch_xla.device()
    model = Matcher(o).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=o.lr, momentum=0.9)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)
    data, held_out = Catalogue(o, 11), Catalogue(o, 12)
    journal = Journal(pathlib.Path(tempfile.mkdtemp()) / "journal.json")

    for step in range(1, o.steps + 1):
        ids, label = data.batch()
        ids, label = ids.to(device), label.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(ids), label, label_smoothing=0.05)
        loss.backward()
        optimizer.step()
        schedule.step()
        torch_xla.sync()
        if step % o.report_every == 0:
            journal.add(step=step, loss=round(loss.item(), 4))
        if step % o.validate_every == 0:
            journal.add(step=step, top1=round(validate(model, held_out, device), 3))
    journal.close()


if __name__ == "__main__":
    train(Options())
